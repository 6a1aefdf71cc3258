from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import empty_pb2 as _empty_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.rpc import status_pb2 as _status_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Artifact(_message.Message):
    __slots__ = ["bytes", "expire_time", "file_name", "id", "media_type", "sha256", "url", "url_expire_time"]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    FILE_NAME_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    URL_EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    expire_time: _timestamp_pb2.Timestamp
    file_name: str
    id: str
    media_type: str
    sha256: str
    url: str
    url_expire_time: _timestamp_pb2.Timestamp
    def __init__(self, id: _Optional[str] = ..., media_type: _Optional[str] = ..., bytes: _Optional[int] = ..., sha256: _Optional[str] = ..., file_name: _Optional[str] = ..., expire_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., url: _Optional[str] = ..., url_expire_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ArtifactChunk(_message.Message):
    __slots__ = ["data", "offset", "total_bytes"]
    DATA_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    offset: int
    total_bytes: int
    def __init__(self, data: _Optional[bytes] = ..., offset: _Optional[int] = ..., total_bytes: _Optional[int] = ...) -> None: ...

class AudioInput(_message.Message):
    __slots__ = ["media", "start_seconds"]
    MEDIA_FIELD_NUMBER: _ClassVar[int]
    START_SECONDS_FIELD_NUMBER: _ClassVar[int]
    media: MediaRef
    start_seconds: float
    def __init__(self, media: _Optional[_Union[MediaRef, _Mapping]] = ..., start_seconds: _Optional[float] = ...) -> None: ...

class AutoLength(_message.Message):
    __slots__ = ["max_seconds", "min_seconds"]
    MAX_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MIN_SECONDS_FIELD_NUMBER: _ClassVar[int]
    max_seconds: float
    min_seconds: float
    def __init__(self, min_seconds: _Optional[float] = ..., max_seconds: _Optional[float] = ...) -> None: ...

class CancelVideoRequest(_message.Message):
    __slots__ = ["id"]
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class Condition(_message.Message):
    __slots__ = ["append", "clip", "crf", "frame", "image", "strength"]
    APPEND_FIELD_NUMBER: _ClassVar[int]
    CLIP_FIELD_NUMBER: _ClassVar[int]
    CRF_FIELD_NUMBER: _ClassVar[int]
    FRAME_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    STRENGTH_FIELD_NUMBER: _ClassVar[int]
    append: bool
    clip: MediaRef
    crf: int
    frame: int
    image: MediaRef
    strength: float
    def __init__(self, image: _Optional[_Union[MediaRef, _Mapping]] = ..., clip: _Optional[_Union[MediaRef, _Mapping]] = ..., frame: _Optional[int] = ..., strength: _Optional[float] = ..., append: bool = ..., crf: _Optional[int] = ...) -> None: ...

class CreateVideoRequest(_message.Message):
    __slots__ = ["detach", "generation", "labels", "model", "output", "request_id", "scheduling"]
    class LabelsEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    DETACH_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SCHEDULING_FIELD_NUMBER: _ClassVar[int]
    detach: bool
    generation: Generation
    labels: _containers.ScalarMap[str, str]
    model: str
    output: Output
    request_id: str
    scheduling: Scheduling
    def __init__(self, request_id: _Optional[str] = ..., model: _Optional[str] = ..., generation: _Optional[_Union[Generation, _Mapping]] = ..., output: _Optional[_Union[Output, _Mapping]] = ..., scheduling: _Optional[_Union[Scheduling, _Mapping]] = ..., labels: _Optional[_Mapping[str, str]] = ..., detach: bool = ...) -> None: ...

class DeleteVideoRequest(_message.Message):
    __slots__ = ["cancel", "id"]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    cancel: bool
    id: str
    def __init__(self, id: _Optional[str] = ..., cancel: bool = ...) -> None: ...

class DownloadArtifactRequest(_message.Message):
    __slots__ = ["artifact_id", "offset", "video_id"]
    ARTIFACT_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    VIDEO_ID_FIELD_NUMBER: _ClassVar[int]
    artifact_id: str
    offset: int
    video_id: str
    def __init__(self, video_id: _Optional[str] = ..., artifact_id: _Optional[str] = ..., offset: _Optional[int] = ...) -> None: ...

class Estimate(_message.Message):
    __slots__ = ["device_bytes", "effective", "fits", "flops", "nearest", "problems", "seconds"]
    class Shape(_message.Message):
        __slots__ = ["height", "num_frames", "width"]
        HEIGHT_FIELD_NUMBER: _ClassVar[int]
        NUM_FRAMES_FIELD_NUMBER: _ClassVar[int]
        WIDTH_FIELD_NUMBER: _ClassVar[int]
        height: int
        num_frames: int
        width: int
        def __init__(self, width: _Optional[int] = ..., height: _Optional[int] = ..., num_frames: _Optional[int] = ...) -> None: ...
    DEVICE_BYTES_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVE_FIELD_NUMBER: _ClassVar[int]
    FITS_FIELD_NUMBER: _ClassVar[int]
    FLOPS_FIELD_NUMBER: _ClassVar[int]
    NEAREST_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    device_bytes: int
    effective: Generation
    fits: bool
    flops: float
    nearest: Estimate.Shape
    problems: _containers.RepeatedScalarFieldContainer[str]
    seconds: float
    def __init__(self, effective: _Optional[_Union[Generation, _Mapping]] = ..., seconds: _Optional[float] = ..., device_bytes: _Optional[int] = ..., flops: _Optional[float] = ..., fits: bool = ..., problems: _Optional[_Iterable[str]] = ..., nearest: _Optional[_Union[Estimate.Shape, _Mapping]] = ...) -> None: ...

class Generation(_message.Message):
    __slots__ = ["audio", "audio_guidance", "audio_only", "auto_length", "conditions", "frame_rate", "height", "loras", "negative_prompt", "num_frames", "num_inference_steps", "prompt", "recipe", "retake", "schedule_tokens", "seed", "sigmas", "upsampler", "video_guidance", "width"]
    class Recipe(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    AUDIO_FIELD_NUMBER: _ClassVar[int]
    AUDIO_GUIDANCE_FIELD_NUMBER: _ClassVar[int]
    AUDIO_ONLY_FIELD_NUMBER: _ClassVar[int]
    AUTO_LENGTH_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    DISTILLED: Generation.Recipe
    DISTILLED_TWO_STAGE: Generation.Recipe
    FRAME_RATE_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    HQ: Generation.Recipe
    LORAS_FIELD_NUMBER: _ClassVar[int]
    NEGATIVE_PROMPT_FIELD_NUMBER: _ClassVar[int]
    NUM_FRAMES_FIELD_NUMBER: _ClassVar[int]
    NUM_INFERENCE_STEPS_FIELD_NUMBER: _ClassVar[int]
    ONE_STAGE: Generation.Recipe
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    RECIPE_FIELD_NUMBER: _ClassVar[int]
    RECIPE_UNSPECIFIED: Generation.Recipe
    RETAKE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    SIGMAS_FIELD_NUMBER: _ClassVar[int]
    TWO_STAGE: Generation.Recipe
    UPSAMPLER_FIELD_NUMBER: _ClassVar[int]
    VIDEO_GUIDANCE_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    audio: AudioInput
    audio_guidance: Guidance
    audio_only: bool
    auto_length: AutoLength
    conditions: _containers.RepeatedCompositeFieldContainer[Condition]
    frame_rate: float
    height: int
    loras: _containers.RepeatedCompositeFieldContainer[LoraRef]
    negative_prompt: str
    num_frames: int
    num_inference_steps: int
    prompt: str
    recipe: Generation.Recipe
    retake: Retake
    schedule_tokens: int
    seed: int
    sigmas: _containers.RepeatedScalarFieldContainer[float]
    upsampler: str
    video_guidance: Guidance
    width: int
    def __init__(self, prompt: _Optional[str] = ..., negative_prompt: _Optional[str] = ..., width: _Optional[int] = ..., height: _Optional[int] = ..., num_frames: _Optional[int] = ..., frame_rate: _Optional[float] = ..., seed: _Optional[int] = ..., recipe: _Optional[_Union[Generation.Recipe, str]] = ..., num_inference_steps: _Optional[int] = ..., sigmas: _Optional[_Iterable[float]] = ..., video_guidance: _Optional[_Union[Guidance, _Mapping]] = ..., audio_guidance: _Optional[_Union[Guidance, _Mapping]] = ..., conditions: _Optional[_Iterable[_Union[Condition, _Mapping]]] = ..., loras: _Optional[_Iterable[_Union[LoraRef, _Mapping]]] = ..., schedule_tokens: _Optional[int] = ..., retake: _Optional[_Union[Retake, _Mapping]] = ..., audio: _Optional[_Union[AudioInput, _Mapping]] = ..., audio_only: bool = ..., upsampler: _Optional[str] = ..., auto_length: _Optional[_Union[AutoLength, _Mapping]] = ...) -> None: ...

class GetInputRequest(_message.Message):
    __slots__ = ["sha256"]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    sha256: str
    def __init__(self, sha256: _Optional[str] = ...) -> None: ...

class GetVideoRequest(_message.Message):
    __slots__ = ["id", "link_seconds"]
    ID_FIELD_NUMBER: _ClassVar[int]
    LINK_SECONDS_FIELD_NUMBER: _ClassVar[int]
    id: str
    link_seconds: int
    def __init__(self, id: _Optional[str] = ..., link_seconds: _Optional[int] = ...) -> None: ...

class Guidance(_message.Message):
    __slots__ = ["cfg_scale", "keep_defaults", "modality_scale", "rescale", "skip_step", "stg_blocks", "stg_scale"]
    CFG_SCALE_FIELD_NUMBER: _ClassVar[int]
    KEEP_DEFAULTS_FIELD_NUMBER: _ClassVar[int]
    MODALITY_SCALE_FIELD_NUMBER: _ClassVar[int]
    RESCALE_FIELD_NUMBER: _ClassVar[int]
    SKIP_STEP_FIELD_NUMBER: _ClassVar[int]
    STG_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    STG_SCALE_FIELD_NUMBER: _ClassVar[int]
    cfg_scale: float
    keep_defaults: bool
    modality_scale: float
    rescale: float
    skip_step: int
    stg_blocks: _containers.RepeatedScalarFieldContainer[int]
    stg_scale: float
    def __init__(self, cfg_scale: _Optional[float] = ..., stg_scale: _Optional[float] = ..., stg_blocks: _Optional[_Iterable[int]] = ..., modality_scale: _Optional[float] = ..., rescale: _Optional[float] = ..., skip_step: _Optional[int] = ..., keep_defaults: bool = ...) -> None: ...

class Input(_message.Message):
    __slots__ = ["bytes", "expire_time", "id", "media_type", "received", "sha256"]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    expire_time: _timestamp_pb2.Timestamp
    id: str
    media_type: str
    received: int
    sha256: str
    def __init__(self, id: _Optional[str] = ..., media_type: _Optional[str] = ..., bytes: _Optional[int] = ..., sha256: _Optional[str] = ..., expire_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., received: _Optional[int] = ...) -> None: ...

class ListModelsResponse(_message.Message):
    __slots__ = ["default_model", "models"]
    DEFAULT_MODEL_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    default_model: str
    models: _containers.RepeatedCompositeFieldContainer[ModelInfo]
    def __init__(self, models: _Optional[_Iterable[_Union[ModelInfo, _Mapping]]] = ..., default_model: _Optional[str] = ...) -> None: ...

class ListVideosRequest(_message.Message):
    __slots__ = ["after_id", "ascending", "id_prefix", "labels", "page_size", "page_token", "states", "text"]
    class LabelsEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    AFTER_ID_FIELD_NUMBER: _ClassVar[int]
    ASCENDING_FIELD_NUMBER: _ClassVar[int]
    ID_PREFIX_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    after_id: str
    ascending: bool
    id_prefix: str
    labels: _containers.ScalarMap[str, str]
    page_size: int
    page_token: str
    states: _containers.RepeatedScalarFieldContainer[Video.State]
    text: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., states: _Optional[_Iterable[_Union[Video.State, str]]] = ..., id_prefix: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., after_id: _Optional[str] = ..., ascending: bool = ..., text: _Optional[str] = ...) -> None: ...

class ListVideosResponse(_message.Message):
    __slots__ = ["next_page_token", "videos"]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    VIDEOS_FIELD_NUMBER: _ClassVar[int]
    next_page_token: str
    videos: _containers.RepeatedCompositeFieldContainer[Video]
    def __init__(self, videos: _Optional[_Iterable[_Union[Video, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListWorkerGroupsResponse(_message.Message):
    __slots__ = ["groups"]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[WorkerGroup]
    def __init__(self, groups: _Optional[_Iterable[_Union[WorkerGroup, _Mapping]]] = ...) -> None: ...

class LoraRef(_message.Message):
    __slots__ = ["digest", "id", "strength", "strength_stage2"]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    STRENGTH_FIELD_NUMBER: _ClassVar[int]
    STRENGTH_STAGE2_FIELD_NUMBER: _ClassVar[int]
    digest: str
    id: str
    strength: float
    strength_stage2: float
    def __init__(self, id: _Optional[str] = ..., strength: _Optional[float] = ..., strength_stage2: _Optional[float] = ..., digest: _Optional[str] = ...) -> None: ...

class MediaRef(_message.Message):
    __slots__ = ["input_id"]
    INPUT_ID_FIELD_NUMBER: _ClassVar[int]
    input_id: str
    def __init__(self, input_id: _Optional[str] = ...) -> None: ...

class ModelInfo(_message.Message):
    __slots__ = ["blocks", "defaults", "digests", "family", "frames_per_token", "id", "image_crf", "kind", "limits", "loras", "modalities", "parts", "pixels_per_token", "recipe_defaults", "recipes", "schedule", "trained_shapes", "upsamplers"]
    class Modality(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    class DigestsEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class Limits(_message.Message):
        __slots__ = ["fixed_sigmas", "frame_multiple", "guided", "max_frames", "max_height", "max_tokens", "max_width", "min_size", "needs", "recipe", "size_multiple", "upsampler"]
        FIXED_SIGMAS_FIELD_NUMBER: _ClassVar[int]
        FRAME_MULTIPLE_FIELD_NUMBER: _ClassVar[int]
        GUIDED_FIELD_NUMBER: _ClassVar[int]
        MAX_FRAMES_FIELD_NUMBER: _ClassVar[int]
        MAX_HEIGHT_FIELD_NUMBER: _ClassVar[int]
        MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
        MAX_WIDTH_FIELD_NUMBER: _ClassVar[int]
        MIN_SIZE_FIELD_NUMBER: _ClassVar[int]
        NEEDS_FIELD_NUMBER: _ClassVar[int]
        RECIPE_FIELD_NUMBER: _ClassVar[int]
        SIZE_MULTIPLE_FIELD_NUMBER: _ClassVar[int]
        UPSAMPLER_FIELD_NUMBER: _ClassVar[int]
        fixed_sigmas: _containers.RepeatedScalarFieldContainer[float]
        frame_multiple: int
        guided: bool
        max_frames: int
        max_height: int
        max_tokens: int
        max_width: int
        min_size: int
        needs: ModelInfo.Parts
        recipe: Generation.Recipe
        size_multiple: int
        upsampler: str
        def __init__(self, recipe: _Optional[_Union[Generation.Recipe, str]] = ..., upsampler: _Optional[str] = ..., size_multiple: _Optional[int] = ..., frame_multiple: _Optional[int] = ..., max_width: _Optional[int] = ..., max_height: _Optional[int] = ..., max_frames: _Optional[int] = ..., max_tokens: _Optional[int] = ..., min_size: _Optional[int] = ..., guided: bool = ..., fixed_sigmas: _Optional[_Iterable[float]] = ..., needs: _Optional[_Union[ModelInfo.Parts, _Mapping]] = ...) -> None: ...
    class Parts(_message.Message):
        __slots__ = ["audio_encoder", "distilled_lora", "duration_head", "upsampler", "video_encoder"]
        AUDIO_ENCODER_FIELD_NUMBER: _ClassVar[int]
        DISTILLED_LORA_FIELD_NUMBER: _ClassVar[int]
        DURATION_HEAD_FIELD_NUMBER: _ClassVar[int]
        UPSAMPLER_FIELD_NUMBER: _ClassVar[int]
        VIDEO_ENCODER_FIELD_NUMBER: _ClassVar[int]
        audio_encoder: bool
        distilled_lora: bool
        duration_head: bool
        upsampler: bool
        video_encoder: bool
        def __init__(self, video_encoder: bool = ..., upsampler: bool = ..., distilled_lora: bool = ..., audio_encoder: bool = ..., duration_head: bool = ...) -> None: ...
    class Schedule(_message.Message):
        __slots__ = ["base_shift", "base_tokens", "max_shift", "max_tokens", "terminal"]
        BASE_SHIFT_FIELD_NUMBER: _ClassVar[int]
        BASE_TOKENS_FIELD_NUMBER: _ClassVar[int]
        MAX_SHIFT_FIELD_NUMBER: _ClassVar[int]
        MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
        TERMINAL_FIELD_NUMBER: _ClassVar[int]
        base_shift: float
        base_tokens: int
        max_shift: float
        max_tokens: int
        terminal: float
        def __init__(self, base_shift: _Optional[float] = ..., max_shift: _Optional[float] = ..., base_tokens: _Optional[int] = ..., max_tokens: _Optional[int] = ..., terminal: _Optional[float] = ...) -> None: ...
    class Shape(_message.Message):
        __slots__ = ["height", "num_frames", "width"]
        HEIGHT_FIELD_NUMBER: _ClassVar[int]
        NUM_FRAMES_FIELD_NUMBER: _ClassVar[int]
        WIDTH_FIELD_NUMBER: _ClassVar[int]
        height: int
        num_frames: int
        width: int
        def __init__(self, width: _Optional[int] = ..., height: _Optional[int] = ..., num_frames: _Optional[int] = ...) -> None: ...
    AUDIO: ModelInfo.Modality
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    DEFAULTS_FIELD_NUMBER: _ClassVar[int]
    DIGESTS_FIELD_NUMBER: _ClassVar[int]
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    FRAMES_PER_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    IMAGE_CRF_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    LORAS_FIELD_NUMBER: _ClassVar[int]
    MODALITIES_FIELD_NUMBER: _ClassVar[int]
    MODALITY_UNSPECIFIED: ModelInfo.Modality
    PARTS_FIELD_NUMBER: _ClassVar[int]
    PIXELS_PER_TOKEN_FIELD_NUMBER: _ClassVar[int]
    RECIPES_FIELD_NUMBER: _ClassVar[int]
    RECIPE_DEFAULTS_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    TRAINED_SHAPES_FIELD_NUMBER: _ClassVar[int]
    UPSAMPLERS_FIELD_NUMBER: _ClassVar[int]
    VIDEO: ModelInfo.Modality
    blocks: int
    defaults: Generation
    digests: _containers.ScalarMap[str, str]
    family: str
    frames_per_token: int
    id: str
    image_crf: int
    kind: str
    limits: _containers.RepeatedCompositeFieldContainer[ModelInfo.Limits]
    loras: _containers.RepeatedScalarFieldContainer[str]
    modalities: _containers.RepeatedScalarFieldContainer[ModelInfo.Modality]
    parts: ModelInfo.Parts
    pixels_per_token: int
    recipe_defaults: _containers.RepeatedCompositeFieldContainer[Generation]
    recipes: _containers.RepeatedScalarFieldContainer[Generation.Recipe]
    schedule: ModelInfo.Schedule
    trained_shapes: _containers.RepeatedCompositeFieldContainer[ModelInfo.Shape]
    upsamplers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., family: _Optional[str] = ..., kind: _Optional[str] = ..., recipes: _Optional[_Iterable[_Union[Generation.Recipe, str]]] = ..., defaults: _Optional[_Union[Generation, _Mapping]] = ..., loras: _Optional[_Iterable[str]] = ..., digests: _Optional[_Mapping[str, str]] = ..., limits: _Optional[_Iterable[_Union[ModelInfo.Limits, _Mapping]]] = ..., upsamplers: _Optional[_Iterable[str]] = ..., recipe_defaults: _Optional[_Iterable[_Union[Generation, _Mapping]]] = ..., blocks: _Optional[int] = ..., pixels_per_token: _Optional[int] = ..., frames_per_token: _Optional[int] = ..., modalities: _Optional[_Iterable[_Union[ModelInfo.Modality, str]]] = ..., parts: _Optional[_Union[ModelInfo.Parts, _Mapping]] = ..., schedule: _Optional[_Union[ModelInfo.Schedule, _Mapping]] = ..., trained_shapes: _Optional[_Iterable[_Union[ModelInfo.Shape, _Mapping]]] = ..., image_crf: _Optional[int] = ...) -> None: ...

class Output(_message.Message):
    __slots__ = ["container", "crf", "embed_parameters", "embed_prompt", "preview_every_steps", "thumbnail", "trace", "ttl", "without_audio"]
    class Container(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_UNSPECIFIED: Output.Container
    CRF_FIELD_NUMBER: _ClassVar[int]
    EMBED_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    EMBED_PROMPT_FIELD_NUMBER: _ClassVar[int]
    MP4: Output.Container
    PNG_FRAMES: Output.Container
    PREVIEW_EVERY_STEPS_FIELD_NUMBER: _ClassVar[int]
    THUMBNAIL_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    WAV: Output.Container
    WEBM: Output.Container
    WITHOUT_AUDIO_FIELD_NUMBER: _ClassVar[int]
    container: Output.Container
    crf: int
    embed_parameters: bool
    embed_prompt: bool
    preview_every_steps: int
    thumbnail: bool
    trace: bool
    ttl: _duration_pb2.Duration
    without_audio: bool
    def __init__(self, container: _Optional[_Union[Output.Container, str]] = ..., without_audio: bool = ..., crf: _Optional[int] = ..., embed_parameters: bool = ..., embed_prompt: bool = ..., ttl: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., preview_every_steps: _Optional[int] = ..., trace: bool = ..., thumbnail: bool = ...) -> None: ...

class Preview(_message.Message):
    __slots__ = ["image", "media_type", "stage", "step"]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    image: bytes
    media_type: str
    stage: str
    step: int
    def __init__(self, image: _Optional[bytes] = ..., media_type: _Optional[str] = ..., step: _Optional[int] = ..., stage: _Optional[str] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ["fraction", "remaining", "stage", "step", "total_steps"]
    FRACTION_FIELD_NUMBER: _ClassVar[int]
    REMAINING_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    TOTAL_STEPS_FIELD_NUMBER: _ClassVar[int]
    fraction: float
    remaining: _duration_pb2.Duration
    stage: str
    step: int
    total_steps: int
    def __init__(self, stage: _Optional[str] = ..., step: _Optional[int] = ..., total_steps: _Optional[int] = ..., fraction: _Optional[float] = ..., remaining: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Resolved(_message.Message):
    __slots__ = ["build", "condition_crf", "device", "digests", "mesh", "not_resumed_because", "num_frames", "precision", "resumed_from_stage", "resumed_from_step", "stages", "tile_plan", "warnings"]
    class DigestsEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class Stage(_message.Message):
        __slots__ = ["height", "loras", "num_frames", "sigmas", "undistilled", "width"]
        HEIGHT_FIELD_NUMBER: _ClassVar[int]
        LORAS_FIELD_NUMBER: _ClassVar[int]
        NUM_FRAMES_FIELD_NUMBER: _ClassVar[int]
        SIGMAS_FIELD_NUMBER: _ClassVar[int]
        UNDISTILLED_FIELD_NUMBER: _ClassVar[int]
        WIDTH_FIELD_NUMBER: _ClassVar[int]
        height: int
        loras: _containers.RepeatedCompositeFieldContainer[LoraRef]
        num_frames: int
        sigmas: _containers.RepeatedScalarFieldContainer[float]
        undistilled: bool
        width: int
        def __init__(self, width: _Optional[int] = ..., height: _Optional[int] = ..., num_frames: _Optional[int] = ..., sigmas: _Optional[_Iterable[float]] = ..., loras: _Optional[_Iterable[_Union[LoraRef, _Mapping]]] = ..., undistilled: bool = ...) -> None: ...
    BUILD_FIELD_NUMBER: _ClassVar[int]
    CONDITION_CRF_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    DIGESTS_FIELD_NUMBER: _ClassVar[int]
    MESH_FIELD_NUMBER: _ClassVar[int]
    NOT_RESUMED_BECAUSE_FIELD_NUMBER: _ClassVar[int]
    NUM_FRAMES_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FROM_STAGE_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FROM_STEP_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    TILE_PLAN_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    build: str
    condition_crf: _containers.RepeatedScalarFieldContainer[int]
    device: str
    digests: _containers.ScalarMap[str, str]
    mesh: str
    not_resumed_because: str
    num_frames: int
    precision: str
    resumed_from_stage: str
    resumed_from_step: int
    stages: _containers.RepeatedCompositeFieldContainer[Resolved.Stage]
    tile_plan: str
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, stages: _Optional[_Iterable[_Union[Resolved.Stage, _Mapping]]] = ..., tile_plan: _Optional[str] = ..., digests: _Optional[_Mapping[str, str]] = ..., condition_crf: _Optional[_Iterable[int]] = ..., precision: _Optional[str] = ..., mesh: _Optional[str] = ..., build: _Optional[str] = ..., device: _Optional[str] = ..., warnings: _Optional[_Iterable[str]] = ..., resumed_from_step: _Optional[int] = ..., resumed_from_stage: _Optional[str] = ..., not_resumed_because: _Optional[str] = ..., num_frames: _Optional[int] = ...) -> None: ...

class Retake(_message.Message):
    __slots__ = ["clip", "end_seconds", "keep_audio", "keep_video", "start_seconds"]
    CLIP_FIELD_NUMBER: _ClassVar[int]
    END_SECONDS_FIELD_NUMBER: _ClassVar[int]
    KEEP_AUDIO_FIELD_NUMBER: _ClassVar[int]
    KEEP_VIDEO_FIELD_NUMBER: _ClassVar[int]
    START_SECONDS_FIELD_NUMBER: _ClassVar[int]
    clip: MediaRef
    end_seconds: float
    keep_audio: bool
    keep_video: bool
    start_seconds: float
    def __init__(self, clip: _Optional[_Union[MediaRef, _Mapping]] = ..., start_seconds: _Optional[float] = ..., end_seconds: _Optional[float] = ..., keep_video: bool = ..., keep_audio: bool = ...) -> None: ...

class Scheduling(_message.Message):
    __slots__ = ["deadline", "priority"]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    deadline: _duration_pb2.Duration
    priority: int
    def __init__(self, priority: _Optional[int] = ..., deadline: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class UploadInputRequest(_message.Message):
    __slots__ = ["data", "header"]
    class Header(_message.Message):
        __slots__ = ["bytes", "media_type", "offset", "sha256"]
        BYTES_FIELD_NUMBER: _ClassVar[int]
        MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
        OFFSET_FIELD_NUMBER: _ClassVar[int]
        SHA256_FIELD_NUMBER: _ClassVar[int]
        bytes: int
        media_type: str
        offset: int
        sha256: str
        def __init__(self, media_type: _Optional[str] = ..., bytes: _Optional[int] = ..., sha256: _Optional[str] = ..., offset: _Optional[int] = ...) -> None: ...
    DATA_FIELD_NUMBER: _ClassVar[int]
    HEADER_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    header: UploadInputRequest.Header
    def __init__(self, header: _Optional[_Union[UploadInputRequest.Header, _Mapping]] = ..., data: _Optional[bytes] = ...) -> None: ...

class Usage(_message.Message):
    __slots__ = ["device_seconds", "peak_device_bytes", "planned_device_bytes", "queue_seconds", "stage_seconds"]
    class StageSecondsEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    DEVICE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    PEAK_DEVICE_BYTES_FIELD_NUMBER: _ClassVar[int]
    PLANNED_DEVICE_BYTES_FIELD_NUMBER: _ClassVar[int]
    QUEUE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    STAGE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    device_seconds: float
    peak_device_bytes: int
    planned_device_bytes: int
    queue_seconds: float
    stage_seconds: _containers.ScalarMap[str, float]
    def __init__(self, queue_seconds: _Optional[float] = ..., stage_seconds: _Optional[_Mapping[str, float]] = ..., device_seconds: _Optional[float] = ..., peak_device_bytes: _Optional[int] = ..., planned_device_bytes: _Optional[int] = ...) -> None: ...

class Video(_message.Message):
    __slots__ = ["artifacts", "attempt", "create_time", "effective", "end_time", "error", "estimated_seconds", "expire_time", "id", "labels", "model", "output", "preemptions", "progress", "queue_position", "request_id", "resolved", "resume_point", "start_time", "state", "usage", "waits_for"]
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    class LabelsEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    CANCELLED: Video.State
    COMPLETED: Video.State
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVE_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ESTIMATED_SECONDS_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    FAILED: Video.State
    FINALIZING: Video.State
    ID_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    PREEMPTIONS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    QUEUED: Video.State
    QUEUE_POSITION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    RESOLVED_FIELD_NUMBER: _ClassVar[int]
    RESUME_POINT_FIELD_NUMBER: _ClassVar[int]
    RUNNING: Video.State
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STATE_UNSPECIFIED: Video.State
    USAGE_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    artifacts: _containers.RepeatedCompositeFieldContainer[Artifact]
    attempt: int
    create_time: _timestamp_pb2.Timestamp
    effective: Generation
    end_time: _timestamp_pb2.Timestamp
    error: _status_pb2.Status
    estimated_seconds: float
    expire_time: _timestamp_pb2.Timestamp
    id: str
    labels: _containers.ScalarMap[str, str]
    model: str
    output: Output
    preemptions: int
    progress: Progress
    queue_position: int
    request_id: str
    resolved: Resolved
    resume_point: Progress
    start_time: _timestamp_pb2.Timestamp
    state: Video.State
    usage: Usage
    waits_for: str
    def __init__(self, id: _Optional[str] = ..., state: _Optional[_Union[Video.State, str]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., attempt: _Optional[int] = ..., queue_position: _Optional[int] = ..., effective: _Optional[_Union[Generation, _Mapping]] = ..., artifacts: _Optional[_Iterable[_Union[Artifact, _Mapping]]] = ..., error: _Optional[_Union[_status_pb2.Status, _Mapping]] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ..., model: _Optional[str] = ..., request_id: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., create_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., start_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., expire_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., output: _Optional[_Union[Output, _Mapping]] = ..., estimated_seconds: _Optional[float] = ..., resolved: _Optional[_Union[Resolved, _Mapping]] = ..., waits_for: _Optional[str] = ..., resume_point: _Optional[_Union[Progress, _Mapping]] = ..., preemptions: _Optional[int] = ...) -> None: ...

class VideoEvent(_message.Message):
    __slots__ = ["heartbeat", "preview", "sequence", "snapshot", "stage", "state", "step", "terminal", "time", "video_id"]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    PREVIEW_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    TERMINAL_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    VIDEO_ID_FIELD_NUMBER: _ClassVar[int]
    heartbeat: _empty_pb2.Empty
    preview: Preview
    sequence: int
    snapshot: Video
    stage: Progress
    state: Video
    step: Progress
    terminal: Video
    time: _timestamp_pb2.Timestamp
    video_id: str
    def __init__(self, video_id: _Optional[str] = ..., sequence: _Optional[int] = ..., time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., snapshot: _Optional[_Union[Video, _Mapping]] = ..., stage: _Optional[_Union[Progress, _Mapping]] = ..., step: _Optional[_Union[Progress, _Mapping]] = ..., state: _Optional[_Union[Video, _Mapping]] = ..., terminal: _Optional[_Union[Video, _Mapping]] = ..., heartbeat: _Optional[_Union[_empty_pb2.Empty, _Mapping]] = ..., preview: _Optional[_Union[Preview, _Mapping]] = ...) -> None: ...

class WatchVideoRequest(_message.Message):
    __slots__ = ["after_sequence", "id"]
    AFTER_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    after_sequence: int
    id: str
    def __init__(self, id: _Optional[str] = ..., after_sequence: _Optional[int] = ...) -> None: ...

class WorkerGroup(_message.Message):
    __slots__ = ["frontend", "id", "mesh", "model", "ranks", "reason", "state", "video_id"]
    class Rank(_message.Message):
        __slots__ = ["address", "device", "last_heartbeat", "rank"]
        ADDRESS_FIELD_NUMBER: _ClassVar[int]
        DEVICE_FIELD_NUMBER: _ClassVar[int]
        LAST_HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
        RANK_FIELD_NUMBER: _ClassVar[int]
        address: str
        device: str
        last_heartbeat: _timestamp_pb2.Timestamp
        rank: int
        def __init__(self, rank: _Optional[int] = ..., address: _Optional[str] = ..., device: _Optional[str] = ..., last_heartbeat: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...
    FRONTEND_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    MESH_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    VIDEO_ID_FIELD_NUMBER: _ClassVar[int]
    frontend: str
    id: str
    mesh: str
    model: str
    ranks: _containers.RepeatedCompositeFieldContainer[WorkerGroup.Rank]
    reason: str
    state: str
    video_id: str
    def __init__(self, id: _Optional[str] = ..., state: _Optional[str] = ..., ranks: _Optional[_Iterable[_Union[WorkerGroup.Rank, _Mapping]]] = ..., video_id: _Optional[str] = ..., mesh: _Optional[str] = ..., model: _Optional[str] = ..., reason: _Optional[str] = ..., frontend: _Optional[str] = ...) -> None: ...

class WorkerGroupRequest(_message.Message):
    __slots__ = ["frontend", "id"]
    FRONTEND_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    frontend: str
    id: str
    def __init__(self, id: _Optional[str] = ..., frontend: _Optional[str] = ...) -> None: ...
