import json

from typer.testing import CliRunner

from repalign.cli.app import app
from repalign.doctor import check_requirement, read_vision_import


def test_doctor_reports_versions_device_and_threads_as_data() -> None:
    result = CliRunner().invoke(app, ["doctor", "--format", "json"])
    findings = {finding["subject"]: finding for finding in json.loads(result.stdout)}
    assert findings["torch"]["status"] == "ok"
    assert "cores" in findings["threads"]["found"]
    assert {"device", "checkpoint cache", "torch with torchvision"} <= findings.keys()


def test_a_missing_dependency_is_a_problem_with_its_command() -> None:
    finding = check_requirement("no-such-package", ">=1", extra=None)
    assert (finding.status, finding.advice) == ("problem", "pip install -U 'no-such-package>=1'")


def test_a_missing_extra_is_only_noted() -> None:
    finding = check_requirement("no-such-package", ">=1", extra="zarr")
    assert (finding.status, finding.advice) == ("note", "pip install -U 'no-such-package>=1'")


def test_an_old_version_is_a_problem() -> None:
    finding = check_requirement("numpy", ">=1000", extra=None)
    assert finding.status == "problem"
    assert ">=1000" in finding.found


def test_builds_of_torch_and_torchvision_that_do_not_match_are_recognised() -> None:
    stderr = "Traceback …\nRuntimeError: operator torchvision::nms does not exist\n"
    finding = read_vision_import(1, "", stderr)
    assert finding.status == "problem"
    assert "builds" in finding.found
    assert "--force-reinstall torch torchvision" in finding.advice


def test_another_failure_of_the_import_shows_its_last_line() -> None:
    finding = read_vision_import(1, "", "Traceback …\nImportError: libcudart.so.13 not found\n")
    assert finding.found == "ImportError: libcudart.so.13 not found"
