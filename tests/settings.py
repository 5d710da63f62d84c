"""The settings of `belated.tuning`, chosen by keywords."""

from belated import tuning


def Setting(
    *,
    information="full",
    dynamics="unknown",
    paths="late",
    stochastic=False,
    arms=False,
    oreps=False,
    dapo=False,
    ftrl=False,
    uob=False,
    ucbvi=False,
    explores=False,
    in_order=False,
):
    """The setting of the named algorithm; that of Delayed OPPO if none is named."""
    if dapo:
        return tuning.DAPOSetting(dynamics=dynamics, paths=paths)
    if ftrl:
        return tuning.FTRLSetting(paths=paths)
    if uob:
        return tuning.UOBSetting(paths=paths)
    if oreps:
        return tuning.OREPSSetting(dynamics=dynamics, paths=paths)
    if ucbvi:
        return tuning.UCBVISetting(paths=paths, explores=explores)
    if stochastic:
        return tuning.Stochastic(paths=paths, explores=explores)
    if arms:
        return tuning.Arms(paths=paths)
    if information == "bandit":
        return tuning.BanditFeedback(dynamics=dynamics, paths=paths)
    return tuning.FullInformation(
        dynamics=dynamics, paths=paths, explores=explores, in_order=in_order
    )
