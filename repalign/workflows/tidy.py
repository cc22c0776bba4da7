"""Results that are tidy records: a row a record, the same columns in every rendering."""

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import pandas


class TidyResult:
    """A result whose ``records`` each give one row of the CSV."""

    columns: ClassVar[tuple[str, ...]]
    records: tuple[Any, ...]

    def to_records(self) -> list[dict[str, Any]]:
        """Return the records as dictionaries, one a row of the CSV."""
        return [record.to_dict() for record in self.records]

    def to_frame(self) -> "pandas.DataFrame":
        """Return the records as a pandas frame, one a row."""
        import pandas

        return pandas.DataFrame(self.to_records(), columns=list(self.columns))
