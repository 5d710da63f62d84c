"""NumPy, JAX and PyTorch give the same numbers, in arrays of the given library."""

import sys

import numpy as np
import pytest

from belated.stale import KINDS, correct, staleness, vtrace

pytestmark = pytest.mark.long
SETUP = {"torch": "needs PyTorch: pip install torch==2.13.0", "jax": "needs JAX: pip install jax"}


@pytest.fixture(params=["torch", "jax"])
def library(request):
    """A function that makes arrays, and the type of its arrays."""
    module = pytest.importorskip(request.param, reason=SETUP[request.param])
    if request.param == "torch":
        return module.tensor, module.Tensor
    return module.numpy.asarray, module.Array


def data(dtype, seed=0):
    rng = np.random.default_rng(seed)
    then, now = -rng.exponential(size=(2, 24, 3)).astype(dtype)
    rewards, values, next_values = rng.normal(size=(3, 24, 3)).astype(dtype)
    discounts = (0.9 * (rng.random((24, 3)) < 0.9)).astype(dtype)
    return then, now, rewards, values, discounts, next_values


def tolerance(dtype):
    return {"rtol": 1e-5, "atol": 1e-6} if dtype == np.float32 else {"rtol": 1e-12}


@pytest.fixture(params=[np.float32, np.float64])
def dtype(request, library):
    jax = sys.modules.get("jax")
    if library[0].__module__.startswith("jax") and request.param == np.float64:
        with jax.enable_x64(True):
            yield request.param
    else:
        yield request.param


def plain(xp, array):
    return np.asarray(xp.asarray(array, dtype=xp.float32).tolist(), dtype=np.float32)


def same(got, want, kind, dtype):
    for part, exact in zip(got, want, strict=True):
        assert isinstance(part, kind)
        assert str(dtype.__name__) in str(part.dtype)
        np.testing.assert_allclose(np.asarray(part), exact, **tolerance(dtype))


@pytest.mark.parametrize("kind", KINDS)
def test_corrections_are_equal(library, dtype, kind):
    make, out = library
    then, now, *_ = data(dtype)
    same(correct(make(then), make(now), kind), correct(then, now, kind), out, dtype)
    mask = np.arange(72).reshape(24, 3) % 5 > 0
    got = correct(make(then), make(now), kind, mask=make(mask), discrete=True)
    same(got, correct(then, now, kind, mask=mask), out, dtype)


def test_measures_and_targets_are_equal(library, dtype):
    make, out = library
    then, now, rewards, values, discounts, next_values = data(dtype)
    got = staleness(make(then), make(now), advantage=make(rewards))
    same(got, staleness(then, now, advantage=rewards), out, dtype)
    ends = discounts == 0
    arrays = (then, now, rewards, values, discounts)
    want = vtrace(*arrays, next_values=next_values, ends=ends)
    made = vtrace(*map(make, arrays), next_values=make(next_values), ends=make(ends))
    same(made, want, out, dtype)


def test_mixed_libraries_and_bad_values_are_refused(library):
    make, _ = library
    with pytest.raises(ValueError, match="now must be an array of the same library as then"):
        correct(make([-1.0]), np.array([-1.0]))
    with pytest.raises(ValueError, match=r"now must be finite, got now\[1\] = nan"):
        correct(make([-1.0, -1.0]), make([-1.0, float("nan")]))
    with pytest.raises(ValueError, match=r"then must hold floats, got dtype .*int"):
        correct(make([1, 2]), make([1, 2]))
    with pytest.raises(ValueError, match=r"got then\[0\] = 1.0"):
        correct(make([1.0]), make([-1.0]), discrete=True)
    with pytest.raises(ValueError, match="a weight overflows"):
        correct(make([-500.0]), make([-1.0]), "decoupled")
    with pytest.raises(ValueError, match="mask must be an array of the same library as then"):
        correct(make([-1.0]), make([-1.0]), mask=np.array([True]))
    with pytest.raises(ValueError, match=r"or 0 and 1, got mask\[0\] = 2.0"):
        correct(make([-1.0]), make([-1.0]), mask=make([2]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("half", ["bfloat16", "float16"])
def test_half_precision_and_two_types(library, kind, half):
    """An inference engine in bfloat16 and a trainer in float32, 600 tokens."""
    make, out = library
    xp = sys.modules["torch" if out.__module__.startswith("torch") else "jax.numpy"]
    logs = -np.random.default_rng(0).exponential(size=(2, 600)).astype(np.float32)
    then, now = (make(x) for x in logs)
    short = xp.asarray(then, dtype=getattr(xp, half))
    other = xp.asarray(now, dtype=getattr(xp, half))
    read = [plain(xp, x) for x in (short, other)]
    cap = 10.0
    for given, want, bits in (
        ((short, other), correct(*read, kind, cap=cap), 8 if half == "bfloat16" else 11),
        ((short, now), correct(read[0], logs[1], kind, cap=cap), 20),
    ):
        got = correct(*given, kind, cap=cap, discrete=True)
        for part, exact in zip(got, want, strict=True):
            assert part.dtype == (short.dtype if bits < 20 else then.dtype)
            np.testing.assert_allclose(plain(xp, part), exact, rtol=2.0**-bits)
    for measured, exact in zip(staleness(short, other), staleness(*read), strict=True):
        np.testing.assert_allclose(float(measured), exact, rtol=1e-5)


def test_scalars_and_masks_of_zeros_and_ones(library):
    make, out = library
    fix = correct(make(-1.0), make(-2.0), "decoupled")
    assert isinstance(fix.weight, out)
    assert tuple(fix.weight.shape) == ()
    np.testing.assert_allclose(float(fix.weight), np.exp(-1.0), rtol=1e-6)
    then, now = make([[-1.0, float("nan")]]), make([[-1.5, float("inf")]])
    for mask in ([[1, 0]], [[1.0, 0.0]], [[True, False]]):
        fix = correct(then, now, "truncated", mask=make(mask))
        np.testing.assert_allclose(np.asarray(fix.weight), [[np.exp(-0.5), 0.0]], rtol=1e-6)
        assert fix.anchor.tolist() == [[-1.5, 0.0]]


@pytest.mark.parametrize("kind", KINDS)
def test_torch_gets_the_gradient_of_ppo_and_none_through_the_correction(kind):
    torch = pytest.importorskip("torch", reason=SETUP["torch"])
    then, now, advantage, *_ = (torch.tensor(x) for x in data(np.float64))
    logp = (now + 0.05).requires_grad_()
    fix = correct(then.requires_grad_(), now.requires_grad_(), kind)
    assert not fix.anchor.requires_grad
    assert not fix.weight.requires_grad
    ratio, weighted = torch.exp(logp - fix.anchor), fix.weight * advantage
    torch.minimum(ratio * weighted, ratio.clip(0.8, 1.2) * weighted).sum().backward()
    r, a = ratio.detach(), weighted
    flat = ((r > 1.2) & (a > 0)) | ((r < 0.8) & (a < 0))
    torch.testing.assert_close(logp.grad, torch.where(flat, 0.0, r * a))
    assert then.grad is None
    assert now.grad is None
    measured = staleness(then, now, advantage=logp)
    made = vtrace(then, now, advantage, logp, torch.full_like(logp, 0.9), next_values=logp)
    assert not any(part.requires_grad for part in (*measured, *made))
    with pytest.raises(ValueError, match="then must hold numbers"):
        correct([logp[0]], [logp[0]])


@pytest.mark.parametrize("kind", KINDS)
def test_torch_compiles_in_one_graph(kind):
    torch = pytest.importorskip("torch", reason=SETUP["torch"])
    then, now, *_ = (torch.tensor(x) for x in data(np.float32))
    mask = (torch.arange(72).reshape(24, 3) % 5 > 0).long()

    def both(then, now):
        return correct(then, now, kind, mask=mask, discrete=True)

    compiled = torch.compile(both, fullgraph=True, backend="eager")
    for part, plain in zip(compiled(then, now), both(then, now), strict=True):
        torch.testing.assert_close(part, plain)


@pytest.mark.parametrize("kind", KINDS)
def test_jax_compiles_and_vectorises(kind):
    jax = pytest.importorskip("jax", reason=SETUP["jax"])
    then, now, *_ = (jax.numpy.asarray(x) for x in data(np.float32))
    whole = [correct(then[:, i], now[:, i], kind) for i in range(3)]
    mapped = jax.jit(jax.vmap(lambda t, n: correct(t, n, kind), in_axes=1, out_axes=1))(then, now)
    for part, alone in zip(mapped, zip(*whole, strict=True), strict=True):
        np.testing.assert_allclose(part, np.stack(alone, axis=1), rtol=1e-6)

    @jax.jit
    def total(t, n):
        parts = (*correct(t, n, kind, mask=mask), *staleness(t, n, mask=mask))
        parts += vtrace(t, n, n, n, n, next_values=n, mask=mask)
        return sum(part.sum() for part in parts)

    mask = (jax.numpy.arange(72).reshape(24, 3) % 5 > 0).astype(int)
    for slope in jax.jit(jax.grad(total, argnums=(0, 1)))(then, now):
        assert not slope.any()
    outside = jax.jit(lambda n: correct(then, n, kind))(now)  # `then` is an array, `n` is traced
    np.testing.assert_allclose(outside.weight, correct(then, now, kind).weight, rtol=1e-6)
