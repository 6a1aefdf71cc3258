// Where `kinora generate` and `download` put a job's files: --output, from its check before the request is sent to the
// file that appears whole under its name.
//
//   absent       JOB.mp4 here, by the container that the request asks for
//   -            standard output
//   FOLDER/      frames as PNG in that folder, or in an existing one that holds no others' files (frame_folder.h): an
//                older clip's frames are replaced; other files of the job lie in it under the job's name
//   FILE         .mp4, .webm, .wav or .zip; an existing one is replaced
//
// {seed}, {id} and {n} (the clip's number in its batch, from 1) in it stand for the job's. Missing folders are made.
#ifndef KINORA_SERVER_TOOLS_CLIP_OUTPUT_H_
#define KINORA_SERVER_TOOLS_CLIP_OUTPUT_H_

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
  // InvalidArgument naming --output: it is empty.
  static absl::StatusOr<ClipOutput> At(std::optional<std::string> output);

  // Before a request is sent: the ending asks for its container. InvalidArgument naming --output: the ending is none of
  // those above, or against the container that the request asks for already.
  absl::Status ChooseContainer(v1::Output& request) const;
  // Also before it: makes the folder and begins the file of the next job, so that a path that cannot be written costs
  // no render. Errors name the path.
  absl::Status Open();

  bool to_standard_output() const { return path_ == "-"; }
  // Whether each clip of a batch has a path of its own.
  bool is_of_each_clip() const { return path_.empty() || varies_; }

  // Where the first file of the n-th job goes, and where another one of it does.
  std::string PathFor(const v1::Video& video, const v1::Artifact& artifact, int n) const;
  std::string PathBeside(const v1::Video& video, const v1::Artifact& artifact, int n) const;
  // InvalidArgument naming --output: its ending is not that of the artifact, which is there already.
  absl::Status CheckEnding(const v1::Artifact& artifact) const;

  // The file that Open began, or a new one: what is written to it goes to PathFor with Place.
  absl::StatusOr<std::unique_ptr<OutputFile>> Begin();
  // Gives the file its name. A folder gets the pictures of an archive instead.
  absl::Status Place(OutputFile& file, const v1::Artifact& artifact, const std::string& path) const;

 private:
  explicit ClipOutput(std::string path);
  bool IsFolder() const;
  std::string Expand(const v1::Video& video, int n) const;

  std::string path_;     // as given; empty: not given
  bool varies_ = false;  // it holds a {word}
  std::unique_ptr<OutputFile> begun_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_CLIP_OUTPUT_H_
