// Loads every module of a model from one loader: no tensor is missing or unread, and names and parameter counts equal
// the references'.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <filesystem>
#include <map>

#include "engine/base/status_macros.h"
#include "engine/model/audio_decoder.h"
#include "engine/model/text_encoder.h"
#include "engine/model/transformer.h"
#include "engine/model/video_decoder.h"
#include "engine/model/vocoder.h"
#include "engine/ops/dry_backend.h"
#include "engine/parallel/dry_communicator.h"
#include "engine/weights/key_tables.h"
#include "tests/config/config_files.h"
#include "tests/testing/status_matchers.h"
#include "tests/weights/key_list.h"

namespace kinora {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::HasSubstr;

const std::string kTiny = KINORA_SOURCE_DIR "/models/tiny/";
const std::string kTinyFile = kTiny + "ltx-2.3-tiny-dev.safetensors";

// Loads everything that a text-to-video process loads.
absl::Status LoadEverything(const WeightLoader& root, const ModelConfig& config, const std::string& tokenizer_model) {
  std::unique_ptr<const Tokenizer> tokenizer;
  if (!tokenizer_model.empty()) {
    KINORA_ASSIGN_OR_RETURN(tokenizer, Tokenizer::Load(tokenizer_model));
  }
  KINORA_RETURN_IF_ERROR(Transformer::Load(root.Under("transformer"), config.transformer).status());
  KINORA_RETURN_IF_ERROR(
      TextEncoder::Load(root, *config.gemma, config.connector, std::move(tokenizer), {.cache_bytes = 0}).status());
  KINORA_RETURN_IF_ERROR(VideoDecoder::Load(root.Under("vae"), config.video_decoder).status());
  KINORA_RETURN_IF_ERROR(AudioDecoder::Load(root.Under("audio_vae"), config.audio_decoder).status());
  KINORA_RETURN_IF_ERROR(Vocoder::Load(root.Under("vocoder"), config.vocoder, config.audio_decoder).status());
  return root.Finish();
}

struct Release {
  const char* version;
  std::map<std::string, double> millions;  // docs/model.md "Parameters and FLOPs"; connectors include their projections
};
class Released : public testing::TestWithParam<Release> {};

TEST_P(Released, ModulesAskForTheReferencesTensorsAndNoOthers) {
  const std::string version = GetParam().version;
  KINORA_ASSERT_OK_AND_ASSIGN(ModelConfig config, ParseConfig(ReadConfigFile("lightricks_" + version)));
  config.gemma = GemmaConfig{.sliding = std::vector<bool>(48, true)};
  ASSERT_THAT(ValidateModelConfig(config), IsOk());
  DryBackend backend;
  const auto mesh = Mesh::Single();
  WeightLoader root = WeightLoader::Dry(*mesh, backend, DType::kBF16);
  ASSERT_THAT(LoadEverything(root, config, ""), IsOk());

  std::map<std::string, std::vector<int64_t>> asked, published;
  std::map<std::string, double> millions;
  for (const RecordedTensor& tensor : root.recorded()) {
    const std::string component(ComponentOf(tensor.name));
    if (component != "vae" && component != "audio_vae" && component != "vocoder") {
      millions[component == "text_projection" ? "connectors" : component] += tensor.shape.elements() / 1e6;
    }
    if (component == "text_encoder") continue;
    const auto key = SingleFileFromCanonical(tensor.name);
    ASSERT_TRUE(key) << tensor.name;
    EXPECT_TRUE(
        asked.emplace(*key, std::vector<int64_t>(tensor.shape.dims().begin(), tensor.shape.dims().end())).second)
        << *key << " is read twice";
  }
  for (const NamedTensor& tensor : ReadKeyList(version)) {
    if (!IsKnownUnread(*CanonicalFromSingleFile(tensor.single_file))) published[tensor.single_file] = tensor.shape;
  }
  for (const auto& [key, shape] : asked) {
    ASSERT_TRUE(published.contains(key)) << key << " is asked for, but no file has it";
    EXPECT_EQ(shape, published[key]) << key;
  }
  for (const auto& [key, shape] : published)
    EXPECT_TRUE(asked.contains(key)) << key << " is in the file, but nothing asks for it";
  for (auto& [component, count] : millions) count = std::round(count * 10) / 10;
  EXPECT_EQ(millions, GetParam().millions);
}

INSTANTIATE_TEST_SUITE_P(
    Spec, Released,
    testing::Values(Release{"2.0", {{"transformer", 18876.2}, {"connectors", 1431.5}, {"text_encoder", 11766.0}}},
                    Release{"2.3", {{"transformer", 18988.8}, {"connectors", 3172.2}, {"text_encoder", 11766.0}}}),
    [](const auto& info) { return info.index == 0 ? "Ltx20" : "Ltx23"; });

class TinyModel : public testing::Test {
 protected:
  TinyModel() : backend_(*OpenBackend("cpu", {})), mesh_(Mesh::Single()) {}
  absl::Status Load(const ModelFiles& files, DType precision, const Mesh& mesh, Backend& backend) {
    KINORA_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(files));
    KINORA_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(*checkpoint));
    KINORA_ASSIGN_OR_RETURN(WeightLoader root, WeightLoader::Open(checkpoint, mesh, backend, precision));
    return LoadEverything(root, config, checkpoint->tokenizer_model());
  }
  absl::Status Load(const std::string& file, Backend& backend) {
    return Load({.paths = {file}, .text_encoder = kTiny + "gemma"}, DType::kF32, *mesh_, backend);
  }
  // Copies the tiny file without the tensor `drop`, with a one-element tensor `add`, and with the last element of
  // `spoil` set to NaN.
  std::string Changed(const std::string& drop, const std::string& add, const std::string& spoil) {
    const auto tiny = *SafetensorsFile::Open(kTinyFile);
    SafetensorsWriter writer;
    for (const auto& [key, value] : tiny->metadata()) writer.SetMetadata(key, value);
    for (const TensorInfo& tensor : tiny->tensors()) {
      if (tensor.name != drop) writer.Declare(tensor.name, tensor.dtype, tensor.shape);
    }
    if (!add.empty()) writer.Declare(add, DType::kU8, {1});
    std::string path = folder_.File("changed.safetensors");
    EXPECT_THAT(writer.Open(path), IsOk());
    for (const TensorInfo& tensor : tiny->tensors()) {
      if (tensor.name == drop) continue;
      std::string data(tensor.bytes, '\0');
      EXPECT_THAT(tiny->Read(tensor, 0, tensor.bytes, data.data()), IsOk());
      if (tensor.name == spoil) data.replace(data.size() - 2, 2, "\xff\x7f");
      EXPECT_THAT(writer.Append(tensor.name, data.data(), tensor.bytes), IsOk());
    }
    if (!add.empty()) {
      EXPECT_THAT(writer.Append(add, "x", 1), IsOk());
    }
    EXPECT_THAT(writer.Close(), IsOk());
    return path;
  }

  TemporaryDirectory folder_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Mesh> mesh_;
};

TEST_F(TinyModel, LoadsWholeInBothPrecisionsAndOnEveryTensorRank) {
  const ModelFiles files{.paths = {kTinyFile}, .text_encoder = kTiny + "gemma"};
  for (DType precision : {DType::kF32, DType::kBF16}) {
    EXPECT_THAT(Load(files, precision, *mesh_, *backend_), IsOk()) << DTypeName(precision);
  }
  for (int rank : {0, 1}) {
    KINORA_ASSERT_OK_AND_ASSIGN(const auto mesh, MakeDryMesh({.tensor = 2}, rank));
    EXPECT_THAT(Load(files, DType::kF32, *mesh, *backend_), IsOk()) << rank;
  }
}

TEST_F(TinyModel, IsRefusedForAMissingAnUnreadOrASpoiltTensor) {
  const std::string missing = "model.diffusion_model.transformer_blocks.1.audio_ff.net.2.bias";
  DryBackend dry;  // detects it too, without reading values
  for (Backend* backend : {backend_.get(), static_cast<Backend*>(&dry)}) {
    EXPECT_THAT(Load(Changed(missing, "", ""), *backend),
                StatusIs(StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("1 problem"),
                               HasSubstr("transformer.transformer_blocks.1.audio_ff.net.2.bias: missing"))));
    EXPECT_THAT(Load(Changed("", "vocoder.vocoder.extra", ""), *backend),
                StatusIs(StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("1 problem"), HasSubstr("vocoder.vocoder.extra: nothing reads it"))));
  }
  for (const char* spoilt : {"model.diffusion_model.audio_embeddings_connector.learnable_registers",
                             "vae.decoder.up_blocks.1.conv.conv.weight", "vocoder.bwe_generator.ups.0.weight",
                             "text_embedding_projection.audio_aggregate_embed.weight"}) {
    EXPECT_THAT(
        Load(Changed("", "", spoilt), *backend_),
        StatusIs(StatusCode::kInvalidArgument, AllOf(HasSubstr("1 problem"), HasSubstr(spoilt), HasSubstr("NaN"))));
  }
}

TEST_F(TinyModel, LoadsWholeFromADiffusersFolderToo) {
  KINORA_ASSERT_OK_AND_ASSIGN(const auto tiny,
                              Checkpoint::Open({.paths = {kTinyFile}, .text_encoder = kTiny + "gemma"}));
  KINORA_ASSERT_OK_AND_ASSIGN(const ModelConfig config, ReadModelConfig(*tiny));
  std::map<std::string, std::vector<std::pair<std::string, Tensor>>> components;
  std::deque<std::string> data;
  for (const auto& [canonical, entry] : tiny->tensors()) {
    if (ComponentOf(canonical) == "text_encoder" || canonical.starts_with("vae.per_channel_statistics.channel") ||
        canonical.starts_with("vae.per_channel_statistics.mean-of-stds")) {
      continue;  // diffusers has only the two statistics that are read
    }
    const auto [component, key] = DiffusersFromCanonical(canonical);
    data.emplace_back(entry.tensor->bytes, '\0');
    ASSERT_THAT(entry.file->Read(*entry.tensor, 0, entry.tensor->bytes, data.back().data()), IsOk());
    components[component].emplace_back(key, Tensor(entry.tensor->dtype, entry.tensor->shape, data.back().data()));
  }
  for (const auto& [component, tensors] : components) {
    std::filesystem::create_directories(folder_.File(component));
    WriteFile(folder_.File(component + "/config.json"), "{}");
    ASSERT_THAT(WriteSafetensors(folder_.File(component + "/diffusion_pytorch_model.safetensors"), tensors), IsOk());
  }
  std::filesystem::copy(kTiny + "gemma", folder_.File("text_encoder"));
  KINORA_ASSERT_OK_AND_ASSIGN(const auto folder, Checkpoint::Open({.paths = {folder_.path()}}));
  KINORA_ASSERT_OK_AND_ASSIGN(WeightLoader root, WeightLoader::Open(folder, *mesh_, *backend_, DType::kF32));
  EXPECT_THAT(LoadEverything(root, config, folder->tokenizer_model()), IsOk());
}

}  // namespace
}  // namespace kinora
