// A short training run of any module over ranks in threads. Records everything that must be equal between two runs.
#pragma once

#include <bit>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <torch/torch.h>

#include "zero/torch/attach_host.h"
#include "zero/torch/engine_control.h"
#include "zero/zero.h"

namespace zero::tests {

using LossFunction = std::function<torch::Tensor(int step, int micro, int rank)>;
// Builds a module and a function for the loss on the data of (step, micro-batch, rank). Also the store of offloaded
// activations, if any.
struct Subject {
  std::shared_ptr<torch::nn::Module> module;
  LossFunction loss;
  std::shared_ptr<ActivationStore> activations{};
};
using MakeSubject = std::function<Subject()>;

struct RunResult {
  std::vector<std::uint32_t> loss_bits;  // of rank 0, for every micro-batch of every step
  std::vector<double> grad_norms;
  std::vector<torch::Tensor> parameters;  // in the order of names, in full precision
  std::vector<torch::Tensor> given_back;  // in registration order, after the attachment ended
  std::vector<EngineReport> reports;      // by rank
};

// Runs every rank in its own thread. After all have ended, the first exception is thrown here.
inline void on_every_rank(int world, const std::function<void(World&)>& body) {
  std::vector<World> worlds = World::in_process(world);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(world));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        World mine = std::move(worlds[static_cast<std::size_t>(rank)]);
        torch::set_num_threads(1);
        body(mine);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

// All threads of the process share the generator, so one thread builds all modules.
inline RunResult train(int world, int num_steps, const AttachOptions& options, const MakeSubject& make,
                       double lr = 1e-2, const EngineHost& host = {}) {
  RunResult result;
  result.reports.resize(static_cast<std::size_t>(world));
  std::vector<Subject> subjects;
  for (int rank = 0; rank < world; ++rank) {
    torch::manual_seed(7 + rank);  // only rank 0's weights count
    subjects.push_back(make());
  }
  on_every_rank(world, [&](World& ranks) {
    const auto rank = static_cast<std::size_t>(ranks.rank());
    Subject& subject = subjects[rank];
    {
      Engine engine = attach(tensors_of(*subject.module), ranks, options, host);
      if (subject.activations) engine.control().share_link(*subject.activations);
      for (int step = 0; step < num_steps; ++step) {
        for (int micro = 0; micro < options.accumulate; ++micro) {
          torch::Tensor loss = subject.loss(step, micro, ranks.rank()) / options.accumulate;
          engine.scaled(loss).backward();
          if (rank == 0) result.loss_bits.push_back(std::bit_cast<std::uint32_t>(loss.item().toFloat()));
        }
        const StepReport report = engine.step(lr);
        if (rank == 0) result.grad_norms.push_back(report.grad_norm);
      }
      engine.for_each_parameter(
          [&](const std::string&, const torch::Tensor& value) {
            if (rank == 0) result.parameters.push_back(value.clone());
          },
          /*full_precision=*/true);
      result.reports[rank] = engine.report();
    }
    if (rank == 0) {
      for (const torch::Tensor& parameter : subject.module->parameters())
        result.given_back.push_back(parameter.detach().clone());
    }
  });
  return result;
}

inline bool same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  return a.sizes() == b.sizes() && a.dtype() == b.dtype() &&
         std::memcmp(a.contiguous().const_data_ptr(), b.contiguous().const_data_ptr(), a.nbytes()) == 0;
}

inline bool same_bits(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return same_bits(x, y); });
}

// The five placements that must have the same bits: stages 0 to 3, and stage 3 under the min budget.
inline std::vector<AttachOptions> all_stages(AttachOptions options) {
  std::vector<AttachOptions> result;
  for (options.stage = 0; options.stage < 4; ++options.stage) result.push_back(options);
  options.stage = 3;
  options.device_memory = MemoryBudget::parse("min");
  result.push_back(options);
  return result;
}

inline std::string placement_of(const AttachOptions& options) {
  return "stage " + std::to_string(options.stage) +
         (options.device_memory.kind == MemoryBudget::Kind::kMin ? ", min" : "");
}

using Values = std::vector<torch::Tensor>;

// Collective. All parameters in full precision.
inline Values weights_of(Engine& engine) {
  Values values;
  engine.for_each_parameter([&](const std::string&, const torch::Tensor& value) { values.push_back(value.clone()); },
                            /*full_precision=*/true);
  return values;
}

}  // namespace zero::tests
