#include "server/gateway/openapi.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/ascii.h"
#include "server/gateway/create_fields.h"
#include "server/gateway/error_body.h"
#include "server/gateway/field_names.h"
#include "server/gateway/video_body.h"
#include "tests/server/gateway/mapping_fixtures.h"
#include "tests/server/gateway/video_fixtures.h"

namespace kinora {
namespace {

using Json = nlohmann::ordered_json;

const Json& Document() {
  static const Json document = Json::parse(OpenApiDocument());
  return document;
}

std::set<std::string> Names(const Json& object) {
  std::set<std::string> names;
  for (const auto& [name, value] : object.items()) names.insert(name);
  return names;
}

std::set<std::string> PropertiesOf(const std::string& schema) {
  return Names(Document()["components"]["schemas"].at(schema)["properties"]);
}

TEST(OpenApiTest, DescribesExactlyTheFieldsThatAreAccepted) {
  std::set<std::string> accepted = {"extra_body", "extra_params"};
  for (const std::string_view name : CreateFieldNames()) accepted.emplace(name);
  EXPECT_EQ(PropertiesOf("CreateVideo"), accepted);
}

TEST(OpenApiTest, DescribesExactlyTheKeysOfEveryAnswer) {
  EXPECT_EQ(PropertiesOf("Video"), Names(Json::parse(VideoBody(CompletedVideo()))));
  EXPECT_EQ(PropertiesOf("VideoList"), Names(Json::parse(VideoListBody({}, false))));
  EXPECT_EQ(PropertiesOf("DeletedVideo"), Names(Json::parse(DeletedBody("a"))));
  EXPECT_EQ(PropertiesOf("Link"), Names(Json::parse(LinkBody("/a", absl::UnixEpoch()))));
  GroupListing groups = {.groups = {{}}, .failures = {{"a", absl::UnavailableError("gone")}}};
  groups.groups[0].group.add_ranks();
  const Json listed = Json::parse(GroupListBody(groups));
  EXPECT_EQ(PropertiesOf("GroupList"), Names(listed));
  EXPECT_EQ(PropertiesOf("Group"), Names(listed["data"][0]));
  EXPECT_EQ(PropertiesOf("Rank"), Names(listed["data"][0]["ranks"][0]));
  EXPECT_EQ(Names(Document()["components"]["schemas"]["GroupList"]["properties"]["failures"]["items"]["properties"]),
            Names(listed["failures"][0]));
  const Json model = Json::parse(ModelBody(DevModel()));
  EXPECT_EQ(PropertiesOf("Model"), Names(model));
  EXPECT_EQ(PropertiesOf("Recipe"), Names(model["recipes"][0]));
  EXPECT_EQ(PropertiesOf("Estimate"), Names(Json::parse(EstimateBody(v1::Estimate(), "ltx"))));
  const Json error = Json::parse(MakeHttpError(404, "not_found", "x").body);
  EXPECT_EQ(PropertiesOf("Error"), Names(error));
  EXPECT_EQ(Names(Document()["components"]["schemas"]["Error"]["properties"]["error"]["properties"]),
            Names(error["error"]));
}

TEST(OpenApiTest, DescribesExactlyTheKeysOfEveryEvent) {
  const auto data = [](const v1::VideoEvent& event) {
    const std::string text = EventText(event);
    return Json::parse(text.substr(text.find("data: ") + 6));
  };
  v1::VideoEvent event;
  event.mutable_step();
  EXPECT_EQ(PropertiesOf("ProgressEvent"), Names(data(event)));
  event.mutable_preview();
  EXPECT_EQ(PropertiesOf("Preview"), Names(data(event)));
  v1::Video running = QueuedVideo();
  running.mutable_progress();
  EXPECT_EQ(PropertiesOf("Progress"), Names(Json::parse(VideoBody(running))["progress_details"]));
}

TEST(OpenApiTest, ListsTheSameWords) {
  const Json& properties = Document()["components"]["schemas"]["CreateVideo"]["properties"];
  const auto words = [&properties](const std::string& field) {
    std::vector<std::string> out;
    for (const Json& word : properties[field]["enum"]) {
      if (!word.is_null()) out.push_back(word);
    }
    return out;
  };
  EXPECT_EQ(words("recipe"), (std::vector<std::string>{std::begin(kRecipeWords), std::end(kRecipeWords)}));
  EXPECT_EQ(words("container"), (std::vector<std::string>{std::begin(kContainerWords), std::end(kContainerWords)}));
  for (size_t i = 0; i < std::size(kRecipeWords); ++i) {  // and they are those of the API, in its order
    EXPECT_EQ(v1::Generation::Recipe_Name(static_cast<v1::Generation::Recipe>(i + 1)),
              absl::AsciiStrToUpper(absl::string_view(kRecipeWords[i].data(), kRecipeWords[i].size())));
  }
  for (size_t i = 0; i < std::size(kContainerWords); ++i) {
    EXPECT_EQ(v1::Output::Container_Name(static_cast<v1::Output::Container>(i + 1)),
              absl::AsciiStrToUpper(absl::string_view(kContainerWords[i].data(), kContainerWords[i].size())));
  }
  EXPECT_EQ(std::size(kRecipeWords) + 1, static_cast<size_t>(v1::Generation::Recipe_ARRAYSIZE));
  EXPECT_EQ(std::size(kContainerWords) + 1, static_cast<size_t>(v1::Output::Container_ARRAYSIZE));
}

TEST(OpenApiTest, EveryReferenceLeadsSomewhere) {
  size_t found = 0;
  const std::function<void(const Json&)> visit = [&](const Json& value) {
    if (value.is_object() && value.contains("$ref")) {
      const std::string reference = value["$ref"];
      ASSERT_EQ(reference.substr(0, 2), "#/") << reference;
      EXPECT_TRUE(Document().contains(Json::json_pointer(reference.substr(1)))) << reference;
      ++found;
    }
    if (value.is_structured()) {
      for (const Json& child : value) visit(child);
    }
  };
  visit(Document());
  EXPECT_GT(found, 50u);
}

}  // namespace
}  // namespace kinora
