// A preview as a picture to look at. Shared by the worker and kinora-render.
#ifndef KINORA_SERVER_WORKER_PREVIEW_JPEG_H_
#define KINORA_SERVER_WORKER_PREVIEW_JPEG_H_

#include <cstdint>
#include <string>

#include "engine/pipeline/latent_preview.h"

namespace kinora {

// A JPEG in the clip's proportions, its longer side 384 pixels or the clip's.
std::string PreviewJpeg(const PreviewPicture& picture, int64_t clip_width, int64_t clip_height);

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_PREVIEW_JPEG_H_
