// Encodes previews as JPEG, for the worker and kinora-render.
#ifndef KINORA_SERVER_WORKER_PREVIEW_JPEG_H_
#define KINORA_SERVER_WORKER_PREVIEW_JPEG_H_

#include <cstdint>
#include <string>

#include "engine/pipeline/latent_preview.h"

namespace kinora {

// Returns a JPEG in the clip's proportions. Its longer side has 384 pixels, or the clip's number if that is smaller.
std::string PreviewJpeg(const PreviewPicture& picture, int64_t clip_width, int64_t clip_height);

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_PREVIEW_JPEG_H_
