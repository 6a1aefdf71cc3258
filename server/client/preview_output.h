// Shows previews for `--preview` of `kinora generate` and `watch`: in the terminal, or in a file that each preview
// replaces.
#ifndef KINORA_SERVER_CLIENT_PREVIEW_OUTPUT_H_
#define KINORA_SERVER_CLIENT_PREVIEW_OUTPUT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/command_line.h"
#include "kinora/v1/video_generation.pb.h"
#include "server/terminal/progress_display.h"
#include "server/terminal/terminal_picture.h"

namespace kinora {

absl::Span<const FlagSpec> PreviewFlags();

class PreviewOutput {
 public:
  // InvalidArgument, naming --preview: the file does not end in .jpg, or there is no file and standard error is not a
  // terminal known to show pictures.
  static absl::StatusOr<PreviewOutput> FromFlag(const CommandLine& line);

  bool wanted() const { return wanted_; }
  // If a preview cannot be shown or written, notes that once; the job continues.
  void Show(const v1::Preview& preview, ProgressDisplay& display) const;

 private:
  absl::Status ShowInTerminal(const v1::Preview& preview, ProgressDisplay& display) const;

  bool wanted_ = false;
  std::string file_;  // empty: the terminal
  PictureProtocol protocol_ = PictureProtocol::kNone;
};

}  // namespace kinora

#endif  // KINORA_SERVER_CLIENT_PREVIEW_OUTPUT_H_
