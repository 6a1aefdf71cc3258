// Where `--preview` of `kinora generate` and `watch` shows the clip on its way: the terminal, or a file that is
// replaced at each preview.
#ifndef KINORA_SERVER_TOOLS_PREVIEW_OUTPUT_H_
#define KINORA_SERVER_TOOLS_PREVIEW_OUTPUT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/command_line.h"
#include "kinora/v1/video_generation.pb.h"
#include "server/tools/progress_display.h"
#include "server/tools/terminal_picture.h"

namespace kinora {

absl::Span<const FlagSpec> PreviewFlags();

class PreviewOutput {
 public:
  // InvalidArgument naming --preview: the file is no .jpg, or without one standard error is no terminal that is known
  // to show pictures.
  static absl::StatusOr<PreviewOutput> FromFlag(const CommandLine& line);

  bool wanted() const { return wanted_; }
  // One that cannot be shown or written is noted once; the job goes on.
  void Show(const v1::Preview& preview, ProgressDisplay& display) const;

 private:
  absl::Status ShowInTerminal(const v1::Preview& preview, ProgressDisplay& display) const;

  bool wanted_ = false;
  std::string file_;  // empty: the terminal
  PictureProtocol protocol_ = PictureProtocol::kNone;
};

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_PREVIEW_OUTPUT_H_
