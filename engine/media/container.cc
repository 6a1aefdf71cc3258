#include "engine/media/container.h"

#include <sys/stat.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace kinora {
namespace {

struct ContainerFacts {
  Container container;
  std::string_view extension, media_type;
};
constexpr ContainerFacts kContainers[] = {{Container::kMp4, "mp4", "video/mp4"},
                                          {Container::kWebm, "webm", "video/webm"},
                                          {Container::kPngFrames, "zip", "application/zip"},
                                          {Container::kPngFolder, "", "inode/directory"},
                                          {Container::kWav, "wav", "audio/wav"}};

const ContainerFacts& Facts(Container container) { return kContainers[static_cast<int>(container)]; }

}  // namespace

absl::StatusOr<Container> ContainerForPath(const std::string& path) {
  if (absl::EndsWith(path, "/")) return Container::kPngFolder;
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return Container::kPngFolder;
  for (const ContainerFacts& facts : kContainers) {
    if (!facts.extension.empty() && absl::EndsWithIgnoreCase(path, "." + std::string(facts.extension))) {
      return facts.container;
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      path,
      ": the ending must be .mp4, .webm, .wav or .zip, or the path a folder (an existing one, or with / at its end)"));
}

std::string_view ContainerExtension(Container container) { return Facts(container).extension; }
std::string_view ContainerMediaType(Container container) { return Facts(container).media_type; }

}  // namespace kinora
