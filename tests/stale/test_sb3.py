"""DelayedPPO equals PPO of Stable-Baselines3 without delays, learns with them, and is saved."""

import copy
import warnings

import numpy as np
import pytest

import belated as bl

pytestmark = pytest.mark.long
torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'belated[sb3]'")
sb3 = pytest.importorskip(
    "stable_baselines3", reason="needs Stable-Baselines3: pip install 'belated[sb3]'"
)
gymnasium = pytest.importorskip("gymnasium", reason="needs Gymnasium")

from belated.stale.sb3 import CORRECTIONS, DelayedPPO  # noqa: E402 - after the skips

SETTINGS = {"n_steps": 64, "batch_size": 32, "n_epochs": 2, "seed": 5, "device": "cpu"}


def parameters(model):
    return {name: x.clone() for name, x in model.policy.state_dict().items()}


def equal(first, second):
    return all(torch.equal(first[name], second[name]) for name in first)


class Recorder(DelayedPPO):
    """Keeps the newest rollout and the used one, by number, for every update."""

    def __init__(self, *args, **settings):
        self.used = []
        super().__init__(*args, **settings)

    def _corrected(self, rollout):
        self.used.append((self.collected - 1, rollout.episode))
        return super()._corrected(rollout)


def environment(name):
    return sb3.common.env_util.make_vec_env(name, n_envs=2, seed=1)


UNUSUAL = [
    {"use_sde": True, "sde_sample_freq": 4},
    {"target_kl": 1e-6},
    {"normalize_advantage": False},
    {"batch_size": 48, "ent_coef": 0.01, "clip_range_vf": 0.2},
    {"clip_range": lambda left: 2.0 * left},
    {"n_steps": 1, "batch_size": 2},
]


@pytest.mark.parametrize(
    ("name", "settings"),
    [("CartPole-v1", {}), ("Pendulum-v1", {}), *(("Pendulum-v1", unusual) for unusual in UNUSUAL)],
)
@pytest.mark.filterwarnings("ignore:You have specified a mini-batch size")
def test_without_delay_it_is_ppo_after_four_rollouts(name, settings):
    corrections = ("delay-adapted", "vtrace") if settings else CORRECTIONS
    settings = {**SETTINGS, **settings}
    plain = sb3.PPO("MlpPolicy", environment(name), **settings).learn(8 * settings["n_steps"])
    for correction in corrections:
        ours = DelayedPPO("MlpPolicy", environment(name), correction=correction, **settings)
        ours.learn(8 * settings["n_steps"])
        assert ours.num_timesteps == plain.num_timesteps == 8 * settings["n_steps"]
        if correction != "vtrace":  # it has advantages of its own
            assert equal(parameters(plain), parameters(ours)), correction


def test_anchors_at_now_that_are_computed_again_change_the_last_digits_only():
    """The policy counts as moved; batched passes of the network round differently."""

    class Again(DelayedPPO):
        def _corrected(self, rollout):
            before, self._n_updates = self._n_updates, -1
            try:
                return super()._corrected(rollout)
            finally:
                self._n_updates = before

    plain = sb3.PPO("MlpPolicy", environment("CartPole-v1"), **SETTINGS).learn(128)
    for correction in ("current", "decoupled", "truncated", "delay-adapted"):
        ours = Again("MlpPolicy", environment("CartPole-v1"), correction=correction, **SETTINGS)
        ours.learn(128)
        first, second = parameters(plain), parameters(ours)
        for key in first:
            torch.testing.assert_close(first[key], second[key], rtol=1e-4, atol=1e-6)


def test_rollouts_arrive_when_the_delay_model_says():
    delays = bl.delays.lost(0.2, bl.delays.uniform(0, 4))
    model = Recorder("MlpPolicy", environment("CartPole-v1"), delays=delays, **SETTINGS)
    model.learn(15 * 128)
    drawn = delays.draw(2**16, np.random.default_rng((5, 27)))[:15]
    expected = sorted((k + d, k) for k, d in enumerate(drawn.tolist()) if k + d < 15)
    assert model.used == expected
    numbers = [rollout for _, rollout in expected]
    assert numbers != sorted(numbers)  # some overtake others
    assert model.lost == (drawn == bl.NEVER).sum() > 0
    assert model.waiting == 15 - len(expected) - model.lost
    assert model._n_updates == 2 * len(expected)


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_one_late_update_is_ppo_with_anchor_and_weight(correction):
    """Fixed delay 1: the second update, by hand from the first."""
    model = DelayedPPO(
        "MlpPolicy", environment("CartPole-v1"), delays=bl.delays.fixed(1), correction=correction,
        **{**SETTINGS, "n_epochs": 1, "batch_size": 128},
    )  # fmt: skip
    model.learn(2 * 128)
    ((*_, buffer),) = model._waiting._waiting  # made by the policy before the only update
    observations = torch.tensor(buffer.observations.reshape(128, -1))
    actions = torch.tensor(buffer.actions.reshape(128)).long()
    then = torch.tensor(buffer.log_probs.reshape(128))
    with torch.no_grad():
        values, now, _ = model.policy.evaluate_actions(observations, actions)
    weight, anchor = torch.ones(128), now
    w = torch.exp(now - then)
    advantage = torch.tensor(buffer.advantages.reshape(128))
    returns = torch.tensor(buffer.returns.reshape(128))
    if correction == "behaviour":
        anchor = then
    elif correction == "delay-adapted" or (correction == "guarded" and (then - now).mean() > 0.03):
        anchor = torch.maximum(then, now)
    elif correction != "current":
        weight = w if correction == "decoupled" else w.clip(None, 2.0)
    if correction == "vtrace":
        starts = torch.tensor(np.concatenate([buffer.episode_starts[1:], buffer.ended[None]]))
        last = model.policy.predict_values(torch.tensor(buffer.last)).detach().reshape(1, 2)
        made = bl.stale.vtrace(
            *(x.reshape(64, 2) for x in (then, now)), torch.tensor(buffer.rewards),
            values.reshape(64, 2), (0.99 * (1 - starts)).float(),
            next_values=torch.cat([values.reshape(64, 2)[1:], last]),
        )  # fmt: skip
        weight, advantage, returns = (
            x.flatten() for x in (made.weight, made.advantage, made.target)
        )
    advantage = weight * (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    twin = DelayedPPO("MlpPolicy", environment("CartPole-v1"), **SETTINGS)
    twin.policy.load_state_dict(model.policy.state_dict())
    twin.policy.optimizer.load_state_dict(copy.deepcopy(model.policy.optimizer.state_dict()))
    value, logp, _ = twin.policy.evaluate_actions(observations, actions)
    ratio = torch.exp(logp - anchor)
    gain = torch.minimum(ratio * advantage, ratio.clip(0.8, 1.2) * advantage).mean()
    loss = 0.5 * ((value.flatten() - returns) ** 2).mean() - gain
    twin.policy.optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(twin.policy.parameters(), 0.5)
    twin.policy.optimizer.step()
    model.learn(128, reset_num_timesteps=False)
    first, second = parameters(twin), parameters(model)
    for key in first:
        torch.testing.assert_close(first[key], second[key], rtol=1e-3, atol=2e-6)


@pytest.mark.parametrize("correction", ["truncated", "vtrace"])
def test_it_is_saved_and_loaded_in_the_middle_of_a_delay(tmp_path, correction):
    delays = bl.delays.geometric(6)
    model = Recorder(
        "MlpPolicy", environment("CartPole-v1"), delays=delays, correction=correction, **SETTINGS
    )
    model.learn(6 * 128)
    assert model.waiting > 1
    model.save(tmp_path / "late.zip")
    loaded = Recorder.load(tmp_path / "late.zip", env=environment("CartPole-v1"), device="cpu")
    assert (loaded.waiting, loaded.collected, loaded.lost) == (model.waiting, 6, model.lost)
    assert loaded.delays == delays
    finished = []
    for each in (model, loaded):
        # Stable-Baselines3 keeps neither environments nor the state of generators.
        each.env.seed(9)
        each._last_obs = None
        each.set_random_seed(9)
        each.learn(6 * 128, reset_num_timesteps=False)
        finished.append(parameters(each))
    assert equal(*finished)
    assert [tuple(pair) for pair in loaded.used] == model.used
    assert any(made < 6 <= number for number, made in model.used)


def test_a_file_is_loaded_without_environments_and_with_other_arguments(tmp_path):
    model = DelayedPPO(
        "MlpPolicy", environment("CartPole-v1"), delays=bl.delays.fixed(2), **SETTINGS
    )
    model.learn(3 * 128)
    model.save(tmp_path / "late.zip")
    loaded = DelayedPPO.load(
        tmp_path / "late.zip", correction="current", delays=bl.delays.fixed(0), device="cpu"
    )
    assert (loaded.waiting, loaded.collected) == (2, 3)
    loaded.set_env(environment("CartPole-v1"))
    loaded.learn(128, reset_num_timesteps=False)  # the new one comes at once, one is still late
    assert (loaded.waiting, loaded.collected) == (1, 4)
    assert loaded._n_updates == model._n_updates + 2 * SETTINGS["n_epochs"]
    with pytest.raises(ValueError, match=r"correction must be one of 'behaviour', .*, got 'dapo'"):
        DelayedPPO.load(tmp_path / "late.zip", correction="dapo", device="cpu")


def test_rollouts_of_other_environments_are_used_when_they_arrive(tmp_path):
    model = DelayedPPO(
        "MlpPolicy", environment("CartPole-v1"), delays=bl.delays.fixed(2), **SETTINGS
    )
    model.learn(2 * 128)
    model.save(tmp_path / "late.zip")
    alone = sb3.common.env_util.make_vec_env("CartPole-v1", n_envs=1)
    loaded = DelayedPPO.load(tmp_path / "late.zip", env=alone, device="cpu")
    loaded.learn(2 * 64, reset_num_timesteps=False)
    assert (loaded.waiting, loaded.collected) == (2, 4)
    assert loaded._n_updates == 2 * SETTINGS["n_epochs"]


class Pair(gymnasium.Env):
    """Dictionary observations and two discrete actions at once."""

    observation_space = gymnasium.spaces.Dict(
        {"a": gymnasium.spaces.Box(-1, 1, (2,)), "b": gymnasium.spaces.Discrete(3)}
    )
    action_space = gymnasium.spaces.MultiDiscrete([2, 3])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.seen(), {}

    def seen(self):
        return {"a": self.np_random.uniform(-1, 1, 2).astype(np.float32), "b": self.steps % 3}

    def step(self, action):
        self.steps += 1
        return self.seen(), float(action[0]), False, self.steps >= 7, {}


def test_dictionaries_and_several_actions_work_and_are_saved(tmp_path):
    env = sb3.common.env_util.make_vec_env(Pair, n_envs=2)
    for correction in ("guarded", "vtrace"):
        model = DelayedPPO(
            "MultiInputPolicy", env, delays=bl.delays.fixed(2), correction=correction, **SETTINGS
        )
        model.learn(4 * 128)
        model.save(tmp_path / "pair.zip")
        loaded = DelayedPPO.load(tmp_path / "pair.zip", env=env, device="cpu")
        assert loaded.waiting == 2
        loaded.learn(2 * 128)
        assert loaded._n_updates > model._n_updates


def test_nothing_is_learned_where_everything_is_lost():
    model = DelayedPPO(
        "MlpPolicy", environment("CartPole-v1"), delays=bl.delays.lost(1.0), **SETTINGS
    )
    before = parameters(model)
    model.learn(3 * 128)
    assert (model.lost, model.waiting, model.num_timesteps) == (3, 0, 3 * 128)
    assert equal(before, parameters(model))


def test_the_logger_has_means_over_what_arrives_together(tmp_path):
    delays = bl.delays.trace([2, 1, 0], repeat=True)
    model = DelayedPPO("MlpPolicy", environment("CartPole-v1"), delays=delays, **SETTINGS)
    model.set_logger(sb3.common.logger.configure(str(tmp_path), ["csv"]))
    model.learn(4 * 128)  # numbers of an update are written after the next rollout
    model.logger.close()
    header, *lines = (tmp_path / "progress.csv").read_text().splitlines()
    ages = [line.split(",")[header.split(",").index("stale/age")] for line in lines]
    assert float(ages[-1]) == 1.0  # of ages 2, 1 and 0


def test_the_logger_and_the_progress_bar_work(tmp_path, capsys):
    model = DelayedPPO(
        "MlpPolicy", environment("CartPole-v1"), delays=bl.delays.fixed(1), **SETTINGS
    )
    model.set_logger(sb3.common.logger.configure(str(tmp_path), ["csv"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tqdm calls its bar with rich experimental
        model.learn(6 * 128, progress_bar=True)
    model.logger.close()
    assert "768/768" in capsys.readouterr().out.replace(" ", "")
    lines = (tmp_path / "progress.csv").read_text().splitlines()
    header, last = lines[0].split(","), lines[-1].split(",")
    found = dict(zip(header, last, strict=True))
    assert float(found["stale/age"]) == 1
    assert float(found["stale/waiting"]) == 1
    assert 0 < float(found["stale/effective_sample_size"]) <= 1
    names = ("drift", "largest_weight", "without_gradient", "lost")
    assert all(f"stale/{name}" in found for name in names)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"correction": "dapo"}, "correction must be one of 'behaviour', .*, got 'dapo'"),
        ({"delays": 3}, "delays must be a delay model such as belated.delays.fixed"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"seed": "a"}, "seed must be a whole number of at least 0, got 'a'"),
        ({"cap": 0}, "cap must be a finite number above 0, got 0"),
        ({"limit": -1}, "limit must be a finite number at least 0"),
    ],
)
def test_bad_input_gets_one_sentence(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        DelayedPPO("MlpPolicy", "CartPole-v1", **arguments)


def test_learning_works_on_cartpole_with_a_delay():
    """Without learning, episodes last about 20 steps."""
    env = sb3.common.env_util.make_vec_env("CartPole-v1", n_envs=4, seed=0)
    model = DelayedPPO(
        "MlpPolicy", env, delays=bl.delays.geometric(2), n_steps=64, batch_size=64, n_epochs=6,
        learning_rate=2e-3, seed=0, device="cpu",
    )  # fmt: skip
    model.learn(8192)
    lengths = [episode["l"] for episode in model.ep_info_buffer]
    assert np.mean(lengths[-20:]) > 50


def test_a_mujoco_task_learns_from_late_rollouts(tmp_path):
    """Rollouts arrive out of order or are lost, and the model is saved in between."""
    pytest.importorskip("mujoco", reason="needs MuJoCo: pip install 'gymnasium[mujoco]'")
    delays = bl.delays.lost(0.2, bl.delays.geometric(2))
    model = Recorder("MlpPolicy", environment("HalfCheetah-v5"), delays=delays, **SETTINGS)
    model.learn(8 * 128)
    numbers = [made for _, made in model.used]
    assert numbers != sorted(numbers)
    assert model.waiting > 0
    model.save(tmp_path / "cheetah.zip")
    loaded = Recorder.load(tmp_path / "cheetah.zip", env=environment("HalfCheetah-v5"))
    loaded.learn(4 * 128, reset_num_timesteps=False)
    assert any(made < 8 <= number for number, made in loaded.used)
    assert loaded.lost > 0
    assert all(torch.isfinite(x).all() for x in parameters(loaded).values())
