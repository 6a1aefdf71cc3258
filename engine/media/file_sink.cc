#include "engine/media/file_sink.h"

#include <sys/stat.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/media/movie_sink.h"
#include "engine/media/png_sink.h"
#include "engine/media/wav_sink.h"

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

std::unique_ptr<ClipSink> MakeFileSink(std::string path, const FileSinkOptions& options) {
  switch (options.container) {
    case Container::kPngFrames:
    case Container::kPngFolder:
      return std::make_unique<PngSink>(std::move(path), options);
    case Container::kWav:
      return std::make_unique<WavSink>(std::move(path), options);
    case Container::kMp4:
    case Container::kWebm:
      break;
  }
  return std::make_unique<MovieSink>(std::move(path), options);
}

absl::StatusOr<Container> ContainerForPath(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return Container::kPngFolder;
  for (const ContainerFacts& facts : kContainers) {
    if (!facts.extension.empty() && absl::EndsWithIgnoreCase(path, "." + std::string(facts.extension))) {
      return facts.container;
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": the ending must be .mp4, .webm, .wav or .zip, or the path an existing folder"));
}

std::string_view ContainerExtension(Container container) { return Facts(container).extension; }
std::string_view ContainerMediaType(Container container) { return Facts(container).media_type; }

}  // namespace kinora
