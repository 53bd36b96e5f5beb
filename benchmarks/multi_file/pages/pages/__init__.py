from pages.counting import count
from pages.cutting import cut

__all__ = ["count", "cut"]
