// A ClipSink that writes a file: which container, which options, one factory. The proto's `Output`, in plain C++.
//
// Files appear whole or not at all: they grow as PATH.XXXX.part and are renamed by End; an error or an early
// destruction removes what was begun. The bytes depend on the frames, the samples, the options and the build only:
// encoder threads are fixed, and no date, host or path is written. Everything is written with one thread per sink
// besides the encoders' own.
#ifndef KINORA_ENGINE_MEDIA_FILE_SINK_H_
#define KINORA_ENGINE_MEDIA_FILE_SINK_H_

#include <memory>
#include <string>

#include "engine/media/container.h"
#include "engine/pipeline/clip_sink.h"

namespace kinora {

struct FileSinkOptions {
  Container container = Container::kMp4;
  bool without_audio = false;
  int crf = 19;              // kMp4: x264, 0..51; kWebm: VP9, 0..51. Lower is better and larger.
  std::string parameters{};  // written as the file's comment; empty: none
  std::string prompt{};      // written as the file's description; empty: none
};

// InvalidArgument for a clip or options the container cannot hold (odd sizes, no sound in a WAV), from Begin.
// A folder or file that cannot be written is reported by Begin with its path.
std::unique_ptr<ClipSink> MakeFileSink(std::string path, const FileSinkOptions& options);

}  // namespace kinora

#endif  // KINORA_ENGINE_MEDIA_FILE_SINK_H_
