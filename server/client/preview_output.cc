#include "server/client/preview_output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/media/output_file.h"
#include "server/client/job_text.h"

namespace kinora {
namespace {

constexpr FlagSpec kFlags[] = {{"preview", "[FILE]",
                                "show a rough preview of the clip in the terminal (kitty, iTerm2 or sixel), or as the "
                                "JPEG FILE, overwritten with each preview"}};

constexpr int64_t kLongest = 2048;     // longest side of a picture; no server sends a longer one
constexpr int64_t kLongestSent = 256;  // for kitty, which gets raw pixels and scales them up

TerminalSize SizeOf(int fd) {
  TerminalSize terminal;
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return terminal;
  return {.columns = size.ws_col,
          .rows = size.ws_row,
          .cell_width = size.ws_xpixel / size.ws_col,
          .cell_height = size.ws_ypixel / size.ws_row};
}

absl::Status WriteFile(const std::string& path, const std::string& bytes) {
  KINORA_ASSIGN_OR_RETURN(const auto file, OutputFile::Create(path));
  KINORA_RETURN_IF_ERROR(file->Write(bytes));
  return file->Commit();
}

RgbPicture NoLongerThan(int64_t longest, RgbPicture picture) {
  const int64_t side = std::max(picture.width, picture.height);
  if (side <= longest) return picture;
  const auto scaled = [&](int64_t length) { return std::max<int64_t>(1, length * longest / side); };
  return Resize(picture, scaled(picture.width), scaled(picture.height));
}

}  // namespace

absl::Span<const FlagSpec> PreviewFlags() { return kFlags; }

absl::StatusOr<PreviewOutput> PreviewOutput::FromFlag(const CommandLine& line) {
  PreviewOutput output;
  if (!line.Has("preview")) return output;
  output.wanted_ = true;
  output.file_ = line.Get("preview").value_or("");
  if (!output.file_.empty()) {
    if (HasJpegEnding(output.file_)) return output;
    return absl::InvalidArgumentError(
        absl::StrCat("--preview=", output.file_, ": must end in .jpg; a preview is a JPEG"));
  }
  output.protocol_ = DetectPictureProtocol([](const char* name) { return std::getenv(name); });
  if (isatty(STDERR_FILENO) == 1 && output.protocol_ != PictureProtocol::kNone) return output;
  return absl::InvalidArgumentError(absl::StrCat(
      "--preview: ",
      isatty(STDERR_FILENO) == 1
          ? "this terminal does not seem to show images (supported: kitty, iTerm2, and terminals with sixel in TERM)"
          : "standard error is not a terminal",
      "; use --preview=FILE.jpg"));
}

void PreviewOutput::Show(const v1::Preview& preview, ProgressDisplay& display) const {
  const absl::Status shown = file_.empty() ? ShowInTerminal(preview, display) : WriteFile(file_, preview.image());
  if (!shown.ok()) {
    display.NoteOnce(absl::StrCat("no preview: ", Printable(std::string(shown.message()), /*keep_lines=*/false)));
  }
}

absl::Status PreviewOutput::ShowInTerminal(const v1::Preview& preview, ProgressDisplay& display) const {
  // Decodes the picture even if the terminal gets the file, so that only valid pictures are sent to it.
  KINORA_ASSIGN_OR_RETURN(RgbPicture picture, DecodeJpeg(preview.image(), kLongest));
  const TerminalSize terminal = SizeOf(STDERR_FILENO);
  const PictureCells cells = FitIntoCells(picture.width, picture.height, terminal);
  switch (protocol_) {
    case PictureProtocol::kKitty:
      display.Picture(KittySequence(NoLongerThan(kLongestSent, std::move(picture)), cells), cells.rows);
      break;
    case PictureProtocol::kITerm2:
      display.Picture(ITerm2Sequence(preview.image(), cells), cells.rows);
      break;
    case PictureProtocol::kSixel: {
      const int width = cells.columns * (terminal.cell_width > 0 ? terminal.cell_width : 10);
      const int height = cells.rows * (terminal.cell_height > 0 ? terminal.cell_height : 20);
      display.Picture(SixelSequence(Resize(picture, width, height)), cells.rows);
      break;
    }
    case PictureProtocol::kNone:
      break;
  }
  return absl::OkStatus();
}

}  // namespace kinora
