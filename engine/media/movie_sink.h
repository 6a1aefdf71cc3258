// MP4 (H.264 + AAC, moov before mdat) and WebM (VP9 + Opus). Frames are encoded as they arrive. Encoded packets stay in
// memory until the sound arrives and they can be interleaved with it.
#ifndef KINORA_ENGINE_MEDIA_MOVIE_SINK_H_
#define KINORA_ENGINE_MEDIA_MOVIE_SINK_H_

#include <memory>
#include <string>

#include "engine/media/av.h"
#include "engine/media/file_sink.h"
#include "engine/media/output_file.h"
#include "engine/media/picture_track.h"
#include "engine/media/sound_track.h"

namespace kinora {

class MovieSink : public ClipSink {
 public:
  MovieSink(std::string path, const FileSinkOptions& options) : options_(options), file_(std::move(path)) {}

  absl::Status Begin(const ClipInfo& info) override;
  absl::Status Frames(int64_t first, const Tensor& rgb8) override;
  absl::Status Audio(const Tensor& waveform) override;
  absl::Status End() override;

 private:
  absl::Status OpenTracks(bool global_header);
  absl::Status AddStream(const AVCodecContext& codec, AVStream*& stream);
  absl::Status WriteHeader();
  absl::Status Write(AVPacket& packet, const AVCodecContext& codec, const AVStream& stream);

  const FileSinkOptions options_;
  PartFile file_;  // declared before muxer_, so that it outlives the open file
  ClipInfo info_;
  AvPtr<AVFormatContext> muxer_;
  std::unique_ptr<PictureTrack> picture_;  // null: no picture
  std::unique_ptr<SoundTrack> sound_;      // null: no sound
  AVStream* picture_stream_ = nullptr;     // owned by muxer_
  AVStream* sound_stream_ = nullptr;
  int64_t next_frame_ = 0;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MEDIA_MOVIE_SINK_H_
