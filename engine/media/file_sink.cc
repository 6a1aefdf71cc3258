#include "engine/media/file_sink.h"

#include <utility>

#include "engine/media/movie_sink.h"
#include "engine/media/png_sink.h"
#include "engine/media/threaded_sink.h"
#include "engine/media/wav_sink.h"

namespace kinora {

std::unique_ptr<ClipSink> MakeFileSink(std::string path, const FileSinkOptions& options) {
  std::unique_ptr<ClipSink> sink;
  switch (options.container) {
    case Container::kWav:
      return std::make_unique<WavSink>(std::move(path), options);
    case Container::kPngFrames:
    case Container::kPngFolder:
      sink = std::make_unique<PngSink>(std::move(path), options);
      break;
    case Container::kMp4:
    case Container::kWebm:
      sink = std::make_unique<MovieSink>(std::move(path), options);
      break;
  }
  return std::make_unique<ThreadedSink>(std::move(sink));
}

}  // namespace kinora
