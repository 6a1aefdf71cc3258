// kinora-worker: one rank of a model. Started by a frontend (embedded mode), or by hand with --frontend.
#include "server/worker/model_options.h"
#include "server/worker/pipeline_model.h"
#include "server/worker/worker_process.h"

int main(int argc, char** argv) {
  return kinora::RunWorker(
      {argv + 1, argv + argc},
      {.load = kinora::PipelineModel::Load, .check = kinora::CheckModelConfig, .describe = kinora::DescribeModelFiles});
}
