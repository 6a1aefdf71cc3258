// The maps that previews are made by, kept from one life of a worker to the next: a file of about 2 KB for each
// decoder.
#ifndef KINORA_SERVER_WORKER_PREVIEW_MAPS_H_
#define KINORA_SERVER_WORKER_PREVIEW_MAPS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "engine/pipeline/latent_preview.h"
#include "google/protobuf/map.h"

namespace kinora {

class PreviewMaps {
 public:
  // folder: "" keeps nothing.
  explicit PreviewMaps(std::string folder);

  // digests: of the model's files (ModelInfo.digests), whose LoRAs do not count.
  static std::string Key(const google::protobuf::Map<std::string, std::string>& digests, const std::string& precision);

  // Nothing: none is there, or one that is damaged or of another number of channels.
  std::optional<LatentToRgb> Find(const std::string& key, int64_t channels) const;
  // Whole or not at all. What cannot be kept is fitted again. Of more than 64 the oldest goes.
  void Keep(const std::string& key, const LatentToRgb& map) const;

 private:
  std::string PathOf(const std::string& key) const;
  void RemoveOldest() const;

  const std::string folder_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_PREVIEW_MAPS_H_
