"""V-trace and the decoupled loss of the TorchRL that is installed, on drawn data.

torchrl.json holds numbers of one version, for the tests that run without it.
"""

import re
from pathlib import Path

import numpy as np
import pytest

import belated as bl
from belated.stale import correct, vtrace

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]
torch = pytest.importorskip("torch", reason="needs PyTorch: pip install torch==2.13.0")
pytest.importorskip("torchrl", reason="needs TorchRL: pip install torchrl")
CLIP = 0.2


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("rho_cap", "c_cap"), [(1.0, 1.0), (2.0, 0.7)])
def test_vtrace(seed, rho_cap, c_cap):
    from torchrl.objectives.value.functional import vtrace_advantage_estimate

    draw = torch.Generator().manual_seed(seed)
    then, now, rewards, values, last = torch.randn(5, 30, 1, generator=draw, dtype=torch.float64)
    done = torch.rand(30, 1, generator=draw) < 0.2
    terminated = done & (torch.rand(30, 1, generator=draw) < 0.5)
    next_values = torch.where(done, last, torch.cat([values[1:], last[-1:]]))
    caps = torch.tensor([rho_cap, c_cap], dtype=torch.float64)  # floats become float32 there
    advantage, target = vtrace_advantage_estimate(
        0.97, now, then, values, next_values, rewards, done, terminated, *caps
    )
    got = vtrace(
        then, now, rewards, values, 0.97 * ~terminated, next_values=next_values, ends=done,
        rho_cap=rho_cap, c_cap=c_cap,
    )  # fmt: skip
    torch.testing.assert_close(got.target, target, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(got.weight * got.advantage, advantage, rtol=1e-12, atol=1e-12)


def table_loss(seed, delay_actor):
    """ClipPPOLoss of a table at now, its actor and data, and the tables of then, now and pi."""
    from tensordict import TensorDict
    from tensordict.nn import (
        ProbabilisticTensorDictModule as Drawing,
    )
    from tensordict.nn import (
        ProbabilisticTensorDictSequential as Actor,
    )
    from tensordict.nn import (
        TensorDictModule,
    )
    from torchrl.modules import OneHotCategorical
    from torchrl.objectives import ClipPPOLoss

    draw = torch.Generator().manual_seed(seed)
    seen = torch.nn.functional.one_hot(torch.randint(3, (40,), generator=draw), 3).double()
    taken = torch.nn.functional.one_hot(torch.randint(4, (40,), generator=draw), 4)
    advantage = torch.randn(40, 1, generator=draw, dtype=torch.float64)
    tables = 0.5 * torch.randn(3, 3, 4, generator=draw, dtype=torch.float64)
    layer = torch.nn.Linear(3, 4, bias=False, dtype=torch.float64)
    actor = Actor(
        TensorDictModule(layer, in_keys=["seen"], out_keys=["logits"]),
        Drawing(
            in_keys=["logits"], distribution_class=OneHotCategorical, return_log_prob=True,
            log_prob_key="then",
        ),
    )  # fmt: skip
    with torch.no_grad():
        layer.weight.copy_(tables[1].T)
    loss = ClipPPOLoss(
        actor, None, delay_actor=delay_actor, clip_epsilon=CLIP, entropy_bonus=False,
        critic_coeff=None,
    )  # fmt: skip
    loss.set_keys(sample_log_prob="then", advantage="advantage", action="action")
    then = (seen @ tables[0]).log_softmax(-1)[taken.bool()]
    data = {"seen": seen, "action": taken, "then": then, "advantage": advantage}
    return loss, actor, TensorDict(data, batch_size=[40]), tables


@pytest.mark.parametrize("seed", range(4))
def test_decoupled(seed):
    """A softmax table: the loss and its gradient."""
    loss, _, data, tables = table_loss(seed, delay_actor=True)
    moving = next(iter(loss.actor_network_params.parameters()))
    with torch.no_grad():  # the network that is delayed stays at now
        moving.copy_(tables[2].T)
    theirs = loss(data)["loss_objective"]
    theirs.backward()
    seen, taken = data["seen"], data["action"].bool()
    now = (seen @ tables[1]).log_softmax(-1)[taken]
    fix = correct(data["then"], now, "decoupled", discrete=True)
    table = tables[2].clone().requires_grad_()
    ratio = torch.exp((seen @ table).log_softmax(-1)[taken] - fix.anchor)
    weighted = fix.weight * data["advantage"][:, 0]
    ours = -torch.minimum(ratio * weighted, ratio.clip(1 - CLIP, 1 + CLIP) * weighted).mean()
    ours.backward()
    assert np.isclose(float(ours.detach()), float(theirs.detach()), rtol=1e-12)
    torch.testing.assert_close(table.grad, moving.grad.T, rtol=1e-10, atol=1e-12)


def test_the_lines_of_the_page():
    """Delay-adapted through ClipPPOLoss, as docs/stale.md shows it, after a step of the loss."""
    loss, actor, data, tables = table_loss(0, delay_actor=False)
    moving, key = next(iter(loss.actor_network_params.parameters())), "then"
    assert loss.tensor_keys.sample_log_prob == key
    with torch.no_grad():
        moving.copy_(tables[2].T)  # as an optimiser of loss.parameters() does
    page = (Path(__file__).parents[2] / "docs" / "stale.md").read_text(encoding="utf-8")
    (lines,) = (part for part in re.findall(r"```py\n(.*?)```", page, re.DOTALL) if "data" in part)
    assert len(lines.splitlines()) == 3
    then, advantage = data[key].clone(), data["advantage"].clone()
    exec(lines, {"bl": bl, "actor": actor, "data": data, "key": key})
    with torch.no_grad():
        moving.copy_(tables[1].T)
    theirs = loss(data)["loss_objective"]
    logp, now = (
        (data["seen"] @ table).log_softmax(-1)[data["action"].bool()]
        for table in (tables[1], tables[2])
    )
    ratio, a = torch.exp(logp - torch.maximum(then, now)), advantage[:, 0]
    ours = -torch.minimum(ratio * a, ratio.clip(1 - CLIP, 1 + CLIP) * a).mean()
    assert np.isclose(float(ours), float(theirs.detach()), rtol=1e-12)
