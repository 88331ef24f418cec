"""What becomes of the steps of a former run when the same folder is used again: kept, computed again, or dropped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, final

from recaudit.arrays import IntArray
from recaudit.audits.failures import causes_of, measured_nothing
from recaudit.data.interactions import Interactions
from recaudit.data.splits import Split
from recaudit.errors import InputError
from recaudit.runs.configuration import Configuration, audit_digest, digest, model_digest
from recaudit.runs.manifest import AuditRecord, SkipRecord, StepInputs, StepRecord

Step = tuple[str, str]
"""The label of a model, and the name of an audit."""


def step_inputs(
    config: Configuration, data: Interactions, split: Split, users: IntArray | None = None
) -> dict[Step, StepInputs]:
    """What each step of a run depends on, in the order in which they are computed.

    Args:
        config: The run.
        data: The log.
        split: Its two parts.
        users: Positions of the users that every model is measured on, as in `find_shared_users`.
    """
    logs = digest([data.fingerprint, split.train.fingerprint, split.test.fingerprint])
    return {
        (model.label, name): StepInputs(
            data=logs,
            model=model_digest(model),
            audit=audit_digest(name, audit),
            users="" if users is None else digest(users.tolist()),
            seed=config.seed,
            device=config.device if audit.uses_device else "cpu",
        )
        for model in config.measured
        for name, audit in config.steps(model).items()
    }


class Repeated(NamedTuple):
    """A step of the former run that is computed again."""

    model: str
    audit: str
    reason: str
    """Why, in a few words."""


@final
@dataclass(frozen=True)
class Resumption:
    """What becomes of the steps of a former run."""

    kept: tuple[Step, ...] = ()
    """Finished, or known to be not supported; nothing that they depend on has changed."""
    repeated: tuple[Repeated, ...] = ()
    dropped: tuple[Step, ...] = ()
    """Of models and audits that the configuration does not name any more: their results are deleted."""
    changed: frozenset[str] = field(default=frozenset())
    """The inputs that have changed: fields of `StepInputs`, or "inputs" if the former ones are not known."""
    lost: int = 0
    """How many results would be deleted although nothing of the former run can be kept."""

    def without(self, damaged: Iterable[Repeated]) -> Resumption:
        """The same, if these steps are computed again as well."""
        also = list(damaged)
        again = {(one.model, one.audit) for one in also}
        kept = tuple(step for step in self.kept if step not in again)
        return replace(self, kept=kept, repeated=(*self.repeated, *also))

    def check(self, path: Path) -> None:
        """Refuse to delete the results of a run of which nothing can be kept."""
        if self.lost:
            names = [_NAMES[name] for name in _NAMES if name in self.changed]
            other = f"with {' and '.join(names)}" if names else "of other models and audits"
            raise InputError(
                "out",
                received=f"{path}, which holds an audit {other}: none of its {self.lost:,} results can be kept",
                expected="a new folder, or one with results that this configuration can keep",
                remedy="Choose another folder, or delete the results and start over: --fresh, in Python fresh=True.",
            )


_NAMES = {
    "inputs": "records of an earlier version",
    "data": "other data",
    "model": "other settings of its models",
    "audit": "other settings of its audits",
    "users": "other users that all models are measured on",
    "seed": "another seed",
    "device": "another device",
}


def resumption_of(former: AuditRecord, planned: Mapping[Step, StepInputs], *, requery: bool = False) -> Resumption:
    """Decide about every step of a former run, given what the steps of the new one depend on.

    Steps are kept if their inputs are the same, unless they failed for a cause that may pass. `requery` repeats those
    of systems that were queried.
    """
    kept, repeated, dropped = list[Step](), list[Repeated](), list[Step]()
    changed, lost = set[str](), 0
    records: list[StepRecord | SkipRecord] = [*former.steps, *former.skipped]
    for record in records:
        step = record.model, record.audit
        has_result = isinstance(record, StepRecord) and not measured_nothing(record.settings)
        differing = planned[step].differences(record.inputs) if step in planned else []
        if step not in planned:
            dropped.append(step)
            lost += has_result
        elif differing:
            changed.update(differing)
            repeated.append(Repeated(*step, " and ".join(_NAMES[name] for name in differing)))
            lost += has_result
        elif reason := _reason_to_repeat(record, requery=requery):
            repeated.append(Repeated(*step, reason))
        else:
            kept.append(step)
    # A step that is repeated for another reason than its inputs shows that this is the same run.
    same = any(planned.get((one.model, one.audit)) == one.inputs for one in records)
    return Resumption(tuple(kept), tuple(repeated), tuple(dropped), frozenset(changed), 0 if same else lost)


def _reason_to_repeat(record: StepRecord | SkipRecord, *, requery: bool) -> str:
    """Why a step is computed again although its inputs are the same; empty if it is not."""
    if isinstance(record, SkipRecord):
        return f"it failed: {record.reason}" if record.failed else ""
    if requery and record.queried:
        return "queried again, as requested"
    causes = causes_of(record.settings) if record.queried else {}
    if not causes:
        return ""
    count, cause = sum(causes.values()), next(iter(causes))
    return f"{count:,} {'failure' if count == 1 else 'failures'}: {cause}"
