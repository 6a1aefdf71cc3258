// A cache on disk of the maps that previews are made with, so that a worker need not fit them again after a restart:
// one file of about 2 KB per decoder.
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

  // Returns the key of a model's map. digests: of the model's files (ModelInfo.digests); those of LoRAs are ignored.
  static std::string Key(const google::protobuf::Map<std::string, std::string>& digests, const std::string& precision);

  // Returns nothing if there is no map, or it is damaged or has another number of channels.
  std::optional<LatentToRgb> Find(const std::string& key, int64_t channels) const;
  // Stores a map atomically. Ignores errors, because a missing map is fitted again. Keeps the 64 newest maps.
  void Keep(const std::string& key, const LatentToRgb& map) const;

 private:
  std::string PathOf(const std::string& key) const;
  void RemoveOldest() const;

  const std::string folder_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_PREVIEW_MAPS_H_
