"""The outlines of the shapes, for whoever draws them (torch) and whoever recognises them (numpy)."""

import math


def distance(shape: str, x, y, arrays):
    """Signed distance from a shape of radius 1 (negative inside), x to the right and y downwards.

    arrays: torch or numpy, whichever x and y are of.
    """
    match shape:
        case "circle":
            return arrays.hypot(x, y) - 1
        case "square":
            return arrays.maximum(abs(x), abs(y)) - 0.85
        case "triangle":  # point upwards, corners at 1.15, its centre of mass at the origin
            return arrays.maximum(y, abs(x) * (math.sqrt(3) / 2) - y * 0.5) - 0.575
        case "star":  # five tips at 1.3, inner corners at 0.55; one tip up
            tip, inner, fifth = 1.3, 0.55, 2 * math.pi / 5
            angle = arrays.arctan2(x, -y)
            angle = abs(angle - arrays.round(angle / fifth) * fifth)  # from the nearest tip's axis: 0 to 36 degrees
            length = arrays.hypot(x, y)
            u, v = length * arrays.cos(angle), length * arrays.sin(angle)
            cu, cv = inner * math.cos(fifth / 2), inner * math.sin(fifth / 2)
            nu, nv = cv, tip - cu  # normal of the edge from the tip to the inner corner
            norm = math.hypot(nu, nv)
            return ((u - tip) * nu + v * nv) / norm
    raise ValueError(shape)
