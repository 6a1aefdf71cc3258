// Prints the tables of docs/performance.md, "Predicted step times".
#include <cstdio>

#include "tests/prediction/step_prediction.h"

int main() {
  const auto tables = kinora::PredictionTables();
  if (!tables.ok()) {
    std::fprintf(stderr, "predict_steps: %s\n", std::string(tables.status().message()).c_str());
    return 1;
  }
  std::fputs(tables->c_str(), stdout);
}
