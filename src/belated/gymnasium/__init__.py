"""Gymnasium environments: as worlds, in the feedback loop, and with late rewards.

`world` reads transition tables, `loop` plays environments whose probabilities are unknown, and
`wrapper` delays the rewards for learners of other libraries. Only `wrapper` and
`registration` import Gymnasium.
"""
