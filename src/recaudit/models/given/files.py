"""Models that a file holds: nothing is fitted."""

from __future__ import annotations

import hashlib
from abc import ABC
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from pydantic import computed_field, field_serializer

from recaudit.data.interactions import Interactions
from recaudit.models.base import Recommender
from recaudit.specification import InputFile


class GivenFile(Recommender, ABC):
    """A recommender whose model is in a file."""

    given: ClassVar[bool] = True

    path: InputFile
    """The file."""

    @computed_field(return_type=str)  # type: ignore[prop-decorator]  # pydantic's documented order
    @cached_property
    def sha256(self) -> str:
        """What the file holds, so that a run is never resumed with other contents under the same name."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @computed_field(return_type=int)  # type: ignore[prop-decorator]  # as above
    @cached_property
    def bytes(self) -> int:
        """The size of the file: to find the same file again, files of another size need not be read."""
        return self.path.stat().st_size

    def check_log(self, data: Interactions) -> None:
        """Refuse a file that does not fit the log, before other models are fitted: the file is read and dropped."""
        super().check_log(data)
        self.fit(data)

    @field_serializer("path")
    def _name_only(self, path: Path) -> str:
        return path.name
