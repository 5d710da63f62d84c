"""A minimal agent: it numbers its episodes, plays one policy and keeps the records it gets."""

import numpy as np

import belated as bl


class Recorder:
    """Plays a policy, uniform unless another is given. seen: (newest episode, record) pairs."""

    def __init__(self, problem, information="full", *, uses_paths=True, policy=None):
        self.problem, self.information, self.uses_paths = problem, information, uses_paths
        self.policy = np.full(problem.shape, 1 / problem.actions) if policy is None else policy
        self.seen, self.begun = [], 0

    def open_episodes(self):
        return []

    def is_open(self, number):
        return False

    def begin_episode(self, now=None):
        self.begun += 1
        return bl.Episode(self.begun - 1, self.policy.copy())

    def observe(self, records, now=None):
        self.seen += [(self.begun - 1, record) for record in records]

    def forget(self, episode):
        pass

    def diagnostics(self):
        return {"begun": self.begun}
