"""The statements of docs/stale.md on other libraries, against recorded losses of these libraries.

See `origin` in elsewhere.json. The three lines for each library are executed as the page has them;
tests/stale/test_torchrl.py runs those for TorchRL.
"""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import belated as bl

HERE = Path(__file__).parent
RECORDED = json.loads((HERE / "elsewhere.json").read_text(encoding="utf-8"))
THEN, NOW, LOGP, ADVANTAGES, MASK = (
    np.array(RECORDED[name]) for name in ("then", "now", "logp", "advantages", "mask")
)
PAGE = (HERE.parents[1] / "docs" / "stale.md").read_text(encoding="utf-8")
RULES = {"rtol": 1e-6}  # AReaL's weights are float32


def loss(anchor, advantages, mask=MASK):
    """The loss of PPO, a mean over all tokens that are not padding."""
    ratio, clip = np.exp(LOGP - anchor), RECORDED["clip"]
    gain = np.minimum(ratio * advantages, np.clip(ratio, 1 - clip, 1 + clip) * advantages)
    return -(gain * mask).sum() / MASK.sum()


@pytest.mark.parametrize(
    ("setting", "kind"),
    [
        ("areal, no rejection sampling", "current"),
        ("areal, both old", "behaviour"),
        ("areal, clamp", "truncated"),
        ("verl, rollout_is=null", "current"),
        ("verl, bypass", "behaviour"),
        ("verl, rollout_is=token", "truncated"),
        ("trl, token_truncate", "truncated"),
        ("trl, no correction", "current"),
    ],
)
def test_their_settings_are_our_kinds(setting, kind):
    fix = bl.stale.correct(THEN, NOW, kind, cap=RECORDED["cap"], mask=MASK, discrete=True)
    got = loss(fix.anchor, fix.weight * ADVANTAGES)
    np.testing.assert_allclose(got, RECORDED["losses"][setting], **RULES)


def test_masks_of_areal_leave_tokens_with_large_weights_out():
    fix = bl.stale.correct(THEN, NOW, "decoupled", mask=MASK)
    kept = MASK * (fix.weight <= RECORDED["upper"])
    assert 0 < kept.sum() < MASK.sum()
    got = loss(fix.anchor, fix.weight * ADVANTAGES, kept)
    np.testing.assert_allclose(got, RECORDED["losses"]["areal, mask"], **RULES)


@pytest.mark.parametrize("library", ["verl", "areal", "trl"])
def test_three_lines_make_their_loss_delay_adapted(library):
    names = {"verl": "rollout_log_probs", "areal": "proximal_logprobs", "trl": "inputs"}
    (lines,) = (x for x in re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL) if names[library] in x)
    assert len(lines.splitlines()) == 3
    inputs = {"sampling_per_token_logps": THEN, "old_per_token_logps": NOW, "completion_mask": MASK}
    space = {
        "bl": bl, "inputs": inputs, "advantages": ADVANTAGES, "loss_mask": MASK,
        "response_mask": MASK, "rollout_log_probs": THEN, "old_log_probs": NOW,
        "old_logprobs": THEN, "proximal_logprobs": NOW,
    }  # fmt: skip
    exec(lines, space)
    anchor, advantages = space["fix"].anchor, space["fix"].weight * ADVANTAGES
    np.testing.assert_allclose(
        loss(anchor, advantages), RECORDED["losses"][f"{library}, lines of the page"], **RULES
    )
    if library == "trl":
        assert space["inputs"]["old_per_token_logps"] is anchor
        assert space["inputs"]["importance_sampling_ratio"] is space["fix"].weight
    else:
        changed = {"verl": "old_log_probs", "areal": "proximal_logprobs"}[library]
        assert space[changed] is anchor
        np.testing.assert_array_equal(space["advantages"], advantages)
    apart = loss(np.maximum(THEN, NOW), ADVANTAGES)
    np.testing.assert_allclose(loss(anchor, advantages), apart, rtol=1e-12)
