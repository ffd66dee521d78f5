"""Is a submission valid, which team owns it, and could it ever run? `admit` answers.

`form.py` and `pods.py` check what a submission says, `rules.py` its team, defaults and maxima;
`static_fit` asks the empty fleet (`fleet_shape.py`); `errors.py` names the field, the value and
the rule, `remedy.py` the next step;
`standing.py` what a state says of a workload where no more is recorded.
"""
