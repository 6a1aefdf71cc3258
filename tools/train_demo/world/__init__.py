"""The world the demo model is trained on: coloured shapes that move, tones, and the English that describes them.

scene.py and grammar.py need nothing but Python's own library, measure_sound.py needs numpy (the prompt-following test
uses them without torch); picture.py and sound.py draw and play a scene with torch.
"""
