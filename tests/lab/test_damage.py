"""No damaged or misplaced result is read as if it were whole.

The generator below damages one run of a small experiment, or puts the files of another run in its
place, in 200 ways (1,000 in the long form). The store must refuse each of them in one line that
names a file of that run.
"""

import dataclasses
import io
import random
from collections import Counter

import polars as pl
import pytest

from belated.lab import part, store
from belated.lab.spec import Case
from belated.lab.task import COLUMNS, perform
from lab.small import TINY
from limits import FULL

CASED = dataclasses.replace(
    TINY, cases=(Case("plain"), Case("later", delays=part("fixed", delay=4)))
)
ENDINGS = [store.ROWS, store.SUMS]
DAMAGES = 1000 if FULL else 200


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A finished experiment, and its results by their tasks."""
    directory = tmp_path_factory.mktemp("whole")
    store.open_for(directory, CASED)
    results = {task: perform(CASED, task)[0] for task in CASED.tasks()}
    for task, result in results.items():
        store.keep(directory, task, result)
    return directory, results


def flip(rng, content):
    """One to three bits."""
    changed = bytearray(content)
    for place in rng.sample(range(8 * len(content)), rng.randint(1, 3)):
        changed[place // 8] ^= 1 << place % 8
    return bytes(changed)


def cut(rng, content):
    return content[: rng.randrange(len(content))]


def longer(rng, content):
    return content + rng.randbytes(rng.randint(1, 9))


def blank(rng, content):
    """A block of zeros, as a failing disk may leave it."""
    start = rng.randrange(len(content))
    zeros = bytes(min(64, len(content) - start))
    if content[start : start + len(zeros)] == zeros:
        return flip(rng, content)
    return content[:start] + zeros + content[start + len(zeros) :]


def damaged(rng, directory, task, results):
    """Damage a file of the run."""
    path = store._path(directory, task, rng.choice(ENDINGS))
    how = rng.choice([flip, cut, longer, blank])
    path.write_bytes(how(rng, path.read_bytes()))
    return f"{how.__name__} {path.suffix}"


def removed(rng, directory, task, results):
    path = store._path(directory, task, store.SUMS)
    path.unlink()
    return f"without {path.suffix}"


def misplaced(rng, directory, task, results):
    """Copy one file, or all, of another run over those of this one."""
    other = rng.choice([t for t in results if t != task])
    for ending in [rng.choice(ENDINGS)] if rng.random() < 0.5 else ENDINGS:
        store._path(directory, task, ending).write_bytes(
            store._path(directory, other, ending).read_bytes()
        )
    return "misplaced"


def resealed(rng, directory, task, results):
    """Store rows of another run, or changed rows, with checksums that match them."""
    other = rng.choice([t for t in results if t != task])
    own = pl.read_parquet(io.BytesIO(results[task]))
    how = rng.choice(["swapped", "shorter", "longer", "turned", "typed", "empty", "one row"])
    frame = {
        "swapped": lambda: pl.read_parquet(io.BytesIO(results[other])),
        "shorter": lambda: own.head(rng.randrange(len(own))),
        "longer": lambda: pl.concat([own, own.head(1)]),
        "turned": own.reverse,
        "typed": lambda: own.with_columns(
            pl.col(rng.choice(["value", "seed", "delay", "missing"])).cast(pl.Float32)
        ),
        "empty": own.clear,
        "one row": lambda: own.with_columns(
            seed=pl.when(pl.col("episode") == 3).then(99).otherwise(pl.col("seed"))
        ),
    }[how]()
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    store._path(directory, task, store.ROWS).unlink()
    store.keep(directory, task, buffer.getvalue())
    return f"resealed {how}"


@pytest.mark.slow
def test_all_damaged_or_swapped_results_are_refused(whole):
    directory, results = whole
    rng = random.Random(13)
    before = store.rows(directory, CASED)
    seen = Counter()
    for _ in range(DAMAGES):
        task = rng.choice(list(results))
        kept = {e: store._path(directory, task, e).read_bytes() for e in ENDINGS}
        how = rng.choice([damaged, damaged, damaged, misplaced, misplaced, resealed, removed])
        seen[how(rng, directory, task, results)] += 1
        try:
            with pytest.raises(ValueError, match=r".") as caught:
                store._rows(directory, CASED, task)
        finally:
            run = store._path(directory, task, "")
            for path in run.parent.glob(f"{run.name}.*"):
                path.unlink()
            for ending, content in kept.items():
                store._path(directory, task, ending).write_bytes(content)
        assert str(run) in str(caught.value)
        assert "\n" not in str(caught.value)
    assert sum(seen.values()) == DAMAGES
    assert min(seen.values()) >= (5 if FULL else 1), seen
    assert store.rows(directory, CASED).equals(before)


def test_what_a_panic_of_the_reader_says_is_one_line(whole, monkeypatch):
    class PanicException(BaseException):  # as compiled readers raise it
        pass

    def panic(*given, **options):
        raise PanicException("index out of bounds\nsecond line")

    monkeypatch.setattr(pl, "read_parquet", panic)
    with pytest.raises(ValueError, match=r"seed-0\.parquet is damaged \(index out of bounds\); "):
        store.rows(whole[0], CASED)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_is_no_damage(whole, monkeypatch, error):
    def stop(*given, **options):
        raise error

    monkeypatch.setattr(pl, "read_parquet", stop)
    with pytest.raises(error):
        store.rows(whole[0], CASED)


def test_the_message_says_which_run_it_is(whole, tmp_path):
    directory, results = whole
    first, *_, last = results
    store.open_for(tmp_path, CASED)
    store.keep(tmp_path, first, results[last])
    with pytest.raises(ValueError, match=r"holds the rows of another run \(case = 'later', not "):
        store.rows(tmp_path)
    assert list(COLUMNS) == store.rows(directory, CASED).columns


def test_another_program_can_check_the_sums(whole):
    import hashlib

    directory, results = whole
    runs = directory / "runs"
    for task in results:
        for line in (runs / f"{task.name}.sha256").read_text().splitlines():
            digest, name = line.split("  ")
            assert hashlib.sha256((runs / name).read_bytes()).hexdigest() == digest
