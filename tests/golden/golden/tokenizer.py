"""A small SentencePiece model with Gemma's settings, and its training text."""

import io
import random

import sentencepiece as spm
from sentencepiece import sentencepiece_model_pb2

PIECES = 1024

# In Gemma's order: mask, multimodal, unused, turns, runs of newlines, runs of spaces, tags.
USER_DEFINED = (
    ["<mask>", "[multimodal]"]
    + [f"<unused{i}>" for i in range(4)]
    + ["<start_of_turn>", "<end_of_turn>"]
    + ["\n" * n for n in range(1, 17)]
    + ["▁" * n for n in range(2, 17)]
    + [
        "<table>",
        "<caption>",
        "<tr>",
        "<td>",
        "</td>",
        "</tr>",
        "</table>",
        "<h1>",
        "</h1>",
        "<strong>",
        "</strong>",
        "<em>",
        "</em>",
        "<code>",
        "</code>",
    ]
)

_SUBJECTS = (
    "a red fox",
    "the old lighthouse keeper",
    "two children in yellow raincoats",
    "a silver train",
    "an orange cat",
    "a jazz trio",
    "the last dragon",
    "a robot gardener",
    "a woman with a violin",
    "an astronaut",
    "a paper boat",
    "three street dancers",
    "a blacksmith",
    "a hummingbird",
    "the crowd at the harbour",
    "a chef in a busy kitchen",
)
_VERBS = (
    "runs through",
    "watches over",
    "is dancing slowly in",
    "drifts across",
    "sings softly to",
    "walks past",
    "is painting",
    "waits under",
    "jumps over",
    "looks up at",
    "disappears behind",
    "sleeps beside",
)
_PLACES = (
    "a snowy forest at dawn",
    "the neon-lit street",
    "a field of tall grass",
    "an empty subway station",
    "the golden desert",
    "a rainy window",
    "the surface of the moon",
    "a crowded market in Marrakesh",
    "a quiet river",
    "an underwater city",
    "the mountain pass",
    "a room full of clocks",
)
_STYLES = (
    "cinematic lighting, 35mm film grain",
    "the camera pans left",
    "slow motion, 4k, highly detailed",
    "soft piano music plays in the background",
    "birds chirping, wind in the leaves",
    "shot from a low angle",
    "handheld camera, shallow depth of field",
    "the sound of footsteps on gravel",
    "warm colors, volumetric fog",
    "close-up of the face",
    "dolly zoom",
    "he says: “We have to go back.”",
    "deep bass hum, distant thunder",
    "blurry, low quality, watermark, subtitles",
    "aerial view of the coast at sunset",
    "black-and-white, 1920s",
)
_SCRIPTS = (
    "Ein alter Leuchtturmwärter blickt über das stürmische Meer.",
    "Un renard roux court à travers la forêt enneigée.",
    "Un tren plateado cruza el desierto; ¿quién lo conduce?",
    "Рыжая лиса бежит по снежному лесу на рассвете.",
    "一只红色的狐狸在雪林中奔跑。",
    "夕暮れの港で猫が眠っている。",
    "눈 덮인 숲을 달리는 붉은 여우.",
    "ثعلب أحمر يركض عبر غابة ثلجية.",
    "एक लाल लोमड़ी बर्फीले जंगल में दौड़ती है।",
    "Μια κόκκινη αλεπού τρέχει στο δάσος.",
    "สุนัขจิ้งจอกวิ่งในป่า",
    "שועל אדום רץ ביער",
    "Bir tilki karlı ormanda koşuyor; İstanbul’da gece.",
)


def training_text(lines: int = 4000) -> list[str]:
    """Returns prompt-like sentences from a seeded grammar; identical on every machine."""
    rng = random.Random(20260101)
    text = []
    for i in range(lines):
        if i % 8 == 7:
            text.append(rng.choice(_SCRIPTS))
            continue
        subject, verb, place = rng.choice(_SUBJECTS), rng.choice(_VERBS), rng.choice(_PLACES)
        styles = ", ".join(rng.sample(_STYLES, rng.randint(1, 3)))
        line = f"{subject} {verb} {place}, {styles}."
        if rng.random() < 0.2:
            line += f" {rng.randint(1, 9999)} frames at {rng.choice((24, 25, 30, 50))} fps"
        text.append(line[0].upper() + line[1:])
    return text


def train(text: list[str] | None = None) -> bytes:
    """Returns the bytes of tokenizer.model: BPE, byte fallback, split digits, identity normalisation, no dummy prefix.

    `text` is the training text; default training_text().
    """
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(text or training_text()),
        model_writer=model,
        vocab_size=PIECES,
        model_type="bpe",
        byte_fallback=True,
        split_digits=True,
        split_by_unicode_script=True,
        split_by_whitespace=True,
        split_by_number=True,
        allow_whitespace_only_pieces=True,
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        normalization_rule_name="identity",
        user_defined_symbols=USER_DEFINED,
        pad_id=0,
        eos_id=1,
        bos_id=2,
        unk_id=3,
        pad_piece="<pad>",
        eos_piece="<eos>",
        bos_piece="<bos>",
        unk_piece="<unk>",
        character_coverage=0.999,
        max_sentence_length=16384,
        num_threads=1,
        minloglevel=2,
    )
    return model.getvalue()


def settings(model: bytes) -> dict:
    """Returns tokenizer_config.json as published with Gemma-3, for the pieces of `model`."""
    return {
        "add_bos_token": True,
        "add_eos_token": False,
        "bos_token": "<bos>",
        "eos_token": "<eos>",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "clean_up_tokenization_spaces": False,
        "model_max_length": 1000000000000000019884624838656,
        "sp_model_kwargs": None,
        "spaces_between_special_tokens": False,
        "tokenizer_class": "GemmaTokenizer",
        "use_default_system_prompt": False,
        "added_tokens_decoder": added_tokens(model),
    }


def added_tokens(model: bytes) -> dict[str, dict]:
    """Returns `added_tokens_decoder` of tokenizer_config.json, as published: {id: {content, special, ...}}."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    kinds = sentencepiece_model_pb2.ModelProto.SentencePiece
    special = (kinds.CONTROL, kinds.UNKNOWN)
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False}
    return {
        str(i): {"content": p.piece, **flags, "special": p.type in special or p.piece.endswith("_of_turn>")}
        for i, p in enumerate(proto.pieces)
        if p.type in (*special, kinds.USER_DEFINED)
    }
