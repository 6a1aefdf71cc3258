// The routes are those of the OpenAPI document, and the document's are served.
#include "server/gateway/routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "server/gateway/handlers.h"
#include "server/gateway/openapi.h"

namespace kinora {
namespace {

using Json = nlohmann::json;
using Queries = std::map<std::string, std::set<std::string>>;  // by "GET /v1/videos"

// Files for people, which no program calls.
const std::set<std::string> kPage = {"GET /", "GET /page.css", "GET /page.js", "GET /favicon.ico"};

std::set<std::string> QueryNames(const Json& document, const Json& parameters) {
  std::set<std::string> names;
  for (const Json& listed : parameters) {
    const bool reference = listed.contains("$ref");
    const Json& parameter =
        reference ? document.at(Json::json_pointer(listed["$ref"].get<std::string>().substr(1))) : listed;
    if (parameter["in"] == "query") names.insert(parameter["name"]);
  }
  return names;
}

Queries OfTheDocument() {
  const Json document = Json::parse(OpenApiDocument());
  Queries queries;
  for (const auto& [path, item] : document["paths"].items()) {
    for (const auto& [method, operation] : item.items()) {
      if (method == "parameters") continue;
      auto& names = queries[absl::StrCat(absl::AsciiStrToUpper(method), " ", path)];
      names = QueryNames(document, operation.value("parameters", Json::array()));
      names.merge(QueryNames(document, item.value("parameters", Json::array())));
    }
  }
  return queries;
}

Queries OfTheServer() {
  prometheus::Registry registry;
  GatewayMetrics metrics(registry);
  Frontends frontends({});
  const Frontends::List admins;
  ByteBudget memory(0), scratch(0);
  const LinkSealer links(std::string(LinkSealer::kKeyBytes, 'k'), Clock::Real());
  HandlerContext context = {.frontends = frontends,
                            .admins = admins,
                            .metrics = metrics,
                            .metrics_text = nullptr,
                            .scratch_folder = "",
                            .body_memory = memory,
                            .scratch_space = scratch,
                            .links = links};
  Queries queries;
  for (const Route& route : MakeRoutes(context)) {
    const std::string name = absl::StrCat(route.method, " ", route.path);
    if (kPage.contains(name)) continue;
    EXPECT_FALSE(queries.contains(name)) << name << " is there twice";
    queries[name] = {route.query.begin(), route.query.end()};
  }
  return queries;
}

TEST(RoutesTest, AreThoseOfTheDocumentWithTheirParameters) {
  const Queries document = OfTheDocument();
  EXPECT_EQ(OfTheServer(), document);
  EXPECT_THAT(document.at("GET /v1/videos"), testing::Contains("after"));
}

}  // namespace
}  // namespace kinora
