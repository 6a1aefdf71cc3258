// Where `kinora generate` and `download` save a job's files: handles --output, from its check before the request to
// moving the complete file to its name.
//
//   absent       JOB.mp4 in the current folder; the extension is that of the requested container
//   -            standard output
//   FOLDER/      PNG frames in that folder, which must be new or hold no foreign files (frame_folder.h). Frames of an
//                older clip are replaced. Other files of the job go into it under the job's name
//   FILE         .mp4, .webm, .wav or .zip; overwrites an existing file
//
// {seed}, {id} and {n} (number in the batch, from 1) are replaced by the job's values. Missing folders are created.
#ifndef KINORA_SERVER_CLIENT_CLIP_OUTPUT_H_
#define KINORA_SERVER_CLIENT_CLIP_OUTPUT_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "engine/media/container.h"
#include "engine/media/output_file.h"
#include "kinora/v1/video_generation.pb.h"

namespace kinora {

class ClipOutput {
 public:
  // InvalidArgument, naming --output: it is empty.
  static absl::StatusOr<ClipOutput> At(std::optional<std::string> output);

  // Call before sending a request: sets the container that the extension selects. InvalidArgument, naming --output: the
  // extension is none of the above, or conflicts with the container that the request already has.
  absl::Status ChooseContainer(v1::Output& request) const;
  // Call before sending a request: creates the folder and opens the next job's file, so that an unwritable path does
  // not waste a render. Errors name the path.
  absl::Status Open();

  bool to_standard_output() const { return path_ == "-"; }
  // Whether each clip of a batch gets its own path.
  bool is_of_each_clip() const { return path_.empty() || varies_; }

  // The path of the first file of the n-th job, and of another file of that job beside it: fox.trace.json for fox.mp4.
  std::string PathFor(const v1::Video& video, const v1::Artifact& artifact, int n) const;
  std::string PathBeside(const v1::Video& video, const v1::Artifact& artifact, int n) const;
  // InvalidArgument, naming --output: its extension differs from that of the finished artifact.
  absl::Status CheckEnding(const v1::Artifact& artifact) const;

  // Returns the file that Open created, or a new one. Place moves it to PathFor.
  absl::StatusOr<std::unique_ptr<OutputFile>> Begin();
  // Moves the file to `path`. If --output is a folder, extracts the frames of an archive into it instead.
  absl::Status Place(OutputFile& file, const v1::Artifact& artifact, const std::string& path) const;

 private:
  explicit ClipOutput(std::string path);
  bool IsFolder() const;
  std::string Expand(const v1::Video& video, int n) const;

  std::string path_;     // as given; empty if not given
  bool varies_ = false;  // contains {seed}, {id} or {n}
  std::unique_ptr<OutputFile> begun_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_CLIENT_CLIP_OUTPUT_H_
