"""Could it ever run on this fleet, were it empty? Asked at admission.

`fitting_flavors` answers for each flavor; `refusals.py` says what is in the way.
"""

from shared.core.admission.static_fit.fit import fitting_flavors
from shared.core.admission.static_fit.model_size import model_error
from shared.core.admission.static_fit.wishes import named

__all__ = ["fitting_flavors", "model_error", "named"]
