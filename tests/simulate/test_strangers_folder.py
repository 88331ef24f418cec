"""A folder that somebody sent is read, and nothing in it is run, whatever is in it and however well it is sealed."""

from __future__ import annotations

import io
import pickle
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import recaudit as ra
from recaudit import simulate
from recaudit.errors import DamagedError, DamageWarning
from recaudit.folders import Folder, verify
from recaudit.simulate.loop import trial
from recaudit.simulate.loop.trial import slates

SMALL = simulate.Topics(users=20, items=30, topics=3, users_per_step=5)
run = partial(simulate.run, SMALL, ra.models.ALS(factors=2), ratings=100, steps=4, warm=True)


class Trap:
    """Runs when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.mark,)


@pytest.fixture
def sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A warm simulation that was stopped after its second step."""
    calls = iter(range(100))

    def fragile(*args: object, **kwargs: object) -> object:
        if next(calls) == 2:
            raise KeyboardInterrupt
        return slates(*args, **kwargs)  # type: ignore[arg-type]  # as they came

    with monkeypatch.context() as patch:
        patch.setattr(trial, "SAVE_SECONDS", -1.0)
        patch.setattr(trial, "slates", fragile)
        with pytest.raises(KeyboardInterrupt):
            run(out=tmp_path / "sent")
    return tmp_path / "sent"


def trap(mark: Path) -> bytes:
    content = pickle.dumps(Trap(mark))
    pickle.loads(content)
    assert mark.exists()  # it works, on whoever reads it
    mark.unlink()
    return content


def test_a_planted_pickle_is_not_read_and_does_not_stay(sent: Path, tmp_path: Path) -> None:
    (sent / "trial-000" / "checkpoints" / "model.pickle").write_bytes(trap(tmp_path / "hacked"))
    assert verify(sent).unknown == ("trial-000/checkpoints/model.pickle",)
    found = run(out=sent)
    assert not (tmp_path / "hacked").exists()
    assert found.steps.equals(run().steps)
    assert verify(sent).unknown == ()


@pytest.mark.parametrize("ending", ["state.safetensors", "model.safetensors", "steps.parquet"])
@pytest.mark.parametrize("how", ["bare", "inside an array"])
def test_a_pickle_sealed_as_one_of_our_files_is_refused(sent: Path, tmp_path: Path, ending: str, how: str) -> None:
    content = trap(tmp_path / "hacked")
    if how == "inside an array":
        file = io.BytesIO()
        np.savez(file, clock=np.array([Trap(tmp_path / "hacked")], dtype=object))
        content = file.getvalue()
    kept = Folder.open(sent / "trial-000", "trial")
    (name,) = (name for name in kept.manifest.files if name.endswith(ending))
    kept.put({name: content})
    assert verify(sent).lost == ()
    with pytest.raises(DamagedError, match=name):
        run(out=sent)
    assert not (tmp_path / "hacked").exists()


def test_a_damaged_trial_is_run_again_to_the_same_numbers(sent: Path) -> None:
    whole = run()
    file = next((sent / "trial-000" / "checkpoints").glob("*.safetensors"))
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.warns(DamageWarning, match=rf"trial-000/checkpoints/{file.name} \(damaged\)"):
        assert run(out=sent).steps.equals(whole.steps)
    shutil.rmtree(sent / "trial-000")
    with pytest.warns(DamageWarning, match=r"trial-000/manifest.json \(missing\)"):
        again = run(out=sent)
    assert again.steps.equals(whole.steps)
    part = next((sent / "trial-000" / "parts").iterdir())
    part.write_bytes(b"")
    with pytest.raises(DamagedError, match=part.name):
        again.slates()
