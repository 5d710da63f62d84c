"""NumPy, JAX and PyTorch give the same numbers, and what comes in comes out."""

import sys

import numpy as np
import pytest

from belated.stale import KINDS, correct, staleness, vtrace

pytestmark = pytest.mark.long
SETUP = {"torch": "needs PyTorch: pip install torch==2.13.0", "jax": "needs JAX: pip install jax"}


@pytest.fixture(params=["torch", "jax"])
def library(request):
    """A function to make arrays, the type that comes out, and whether float64 is there."""
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


@pytest.mark.parametrize("kind", KINDS)
def test_jax_compiles_and_vectorises(kind):
    jax = pytest.importorskip("jax", reason=SETUP["jax"])
    then, now, *_ = (jax.numpy.asarray(x) for x in data(np.float32))
    whole = [correct(then[:, i], now[:, i], kind) for i in range(3)]
    mapped = jax.jit(jax.vmap(lambda t, n: correct(t, n, kind), in_axes=1, out_axes=1))(then, now)
    for part, alone in zip(mapped, zip(*whole, strict=True), strict=True):
        np.testing.assert_allclose(part, np.stack(alone, axis=1), rtol=1e-6)
    slope = jax.grad(lambda n: correct(then, n, kind).weight.sum())(now)
    assert not slope.any()
