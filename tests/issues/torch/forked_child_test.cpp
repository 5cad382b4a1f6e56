// A child of a rank, such as a worker that loads data, used a parameter. It took part in the exchanges of its parent's
// ranks. The parent then failed and blamed another rank.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zero/comm/group.h"
#include "zero/comm/transport/open_transport.h"

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

using tests::TiedNet;

// Runs `body` in a forked child and waits for its end. Returns 0 if all expectations held. `leaves_by_exit`: ends with
// exit() instead of _exit(). An alarm ends a child that hangs.
int status_of_child(const std::function<void()>& body, bool leaves_by_exit = false) {
  const pid_t process = ::fork();
  if (process == 0) {
    ::alarm(60);
    int status = 7;
    try {
      body();
      status = ::testing::Test::HasFailure() ? 8 : 0;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "child: %s\n", error.what());
    }
    if (leaves_by_exit) std::exit(status);
    ::_exit(status);
  }
  int status = -1;
  ::waitpid(process, &status, 0);
  return status;
}

void expect_refused(const std::function<void()>& action, int rank) {
  const std::string message = message_of<ConfigError>(action);
  EXPECT_TRUE(says(message, "this process was forked from rank " + std::to_string(rank)));
  EXPECT_TRUE(says(message, "before attach()"));
}

// Runs `body` in two processes with shared memory between them. Returns 0 if both succeed.
int status_of_two_processes(const std::function<void(World&)>& body) {
  static int runs = 0;
  const std::string run = "forked-" + std::to_string(::getpid()) + "-" + std::to_string(runs++);
  std::vector<pid_t> processes;
  for (int rank = 0; rank < 2; ++rank) {
    processes.push_back(::fork());
    if (processes.back() != 0) continue;
    ::alarm(120);
    torch::set_num_threads(1);
    int status = 7;
    try {
      RankEnvironment ranks;
      ranks.rank = ranks.local_rank = rank;
      ranks.world = ranks.local_world = 2;
      ranks.run_id = run;
      World world(open_transport("shared_memory", ranks, std::chrono::seconds(60)), 2);
      body(world);
      status = ::testing::Test::HasFailure() ? 8 : 0;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    }
    ::_exit(status);
  }
  int sum = 0;
  for (const pid_t process : processes) {
    int status = -1;
    ::waitpid(process, &status, 0);
    sum += status != 0 ? 1 : 0;
  }
  return sum;
}

// Runs in its own process, because libtorch refuses backward passes in a fork of a process that has had autograd
// threads.
void on_two_processes(const std::function<void(World&)>& body) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(::_exit(status_of_two_processes(body)), testing::ExitedWithCode(0), "");
}

// Calls that a child may not make, and calls that it may.
void expect_dead_engine(TiedNet& net, Engine& engine, World& ranks, const torch::Tensor& loss) {
  const torch::Tensor& weight = net.block(1).up->weight;
  const std::vector<std::function<void()>> uses{
      [&] { static_cast<void>(weight.sum()); },
      [&] { static_cast<void>(weight[0][0].item<float>()); },
      [&] { static_cast<void>(net.forward(tests::tokens_of(0, 0, 0))); },
      [&] { engine.step(); },
      [&] { engine.discard_gradients(); },
      [&] { const auto scope = engine.gathered(net); },
      [&] { const auto scope = engine.use({weight}); },
      [&] { engine.export_weights("/nowhere"); },
      [&] { static_cast<void>(engine.report()); },
      [&] { engine.detach(); },
      [&] { static_cast<void>(ranks.communicator()); },
  };
  for (const auto& use : uses) expect_refused(use, ranks.rank());
  EXPECT_THROW(loss.backward(), std::exception);  // libtorch itself may refuse this
  EXPECT_THROW(static_cast<void>(weight.const_data_ptr()), c10::Error);
  EXPECT_EQ(weight.t().sizes(), torch::IntArrayRef({6, 12}));
  EXPECT_EQ(weight.detach().narrow(0, 2, 3).size(0), 3);
  EXPECT_EQ(ranks.size(), 2);
}

// The parent continues between forks, with the bits of a run without children.
TEST(ForkedChild, RefusesEachUse) {
  for (const AttachOptions& options : tests::all_stages({})) {
    SCOPED_TRACE(tests::placement_of(options));
    on_two_processes([&](World& ranks) {
      std::vector<tests::Values> weights;
      for (const bool forks : {false, true}) {
        torch::manual_seed(7);
        TiedNet net;
        Engine engine = attach(net, ranks, options);
        for (int step = 0; step < 3; ++step) {
          const torch::Tensor loss = loss_of(net, step, 0, ranks.rank());
          if (forks) {
            EXPECT_EQ(status_of_child([&] { expect_dead_engine(net, engine, ranks, loss); }), 0);
          }
          loss.backward();
          engine.step(1e-2);
        }
        weights.push_back(tests::weights_of(engine));
      }
      EXPECT_TRUE(tests::same_bits(weights[0], weights[1]));
    });
  }
}

// Destructors in the child send nothing and wait for no thread. The parent has threads that update, save and watch
// memory.
TEST(ForkedChild, DestroysWithoutEffect) {
  const TemporaryFolder folder;
  AttachOptions options{.stage = 3};
  options.offload.fractions = {.gradient = {.host = 1}, .optimizer = {.disk = 1}};
  options.offload.disk = {folder.path().string()};
  on_two_processes([&](World& ranks) {
    TiedNet net;
    auto world = std::make_unique<World>(std::move(ranks));
    auto engine = std::make_unique<Engine>(attach(net, *world, options));
    loss_of(net, 0, 0, world->rank()).backward();
    engine->step(1e-2);
    auto save = engine->control().begin_save(folder.path() / "saved", {});
    for (const bool by_exit : {false, true}) {
      const int status = status_of_child(
          [&] {
            save.reset();
            engine.reset();
            world.reset();
          },
          by_exit);
      EXPECT_EQ(status, 0) << by_exit;
    }
    save->wait();
    loss_of(net, 1, 0, world->rank()).backward();
    EXPECT_EQ(engine->step(1e-2).step, 2);
    save.reset();
    engine.reset();
    ranks = std::move(*world);
  });
}

TEST(ForkedChild, LeavesOpenScopesWithoutEffect) {
  on_two_processes([&](World& ranks) {
    TiedNet net;
    Engine engine = attach(net, ranks, {.stage = 3});
    std::unique_ptr<GatheredScope> gathered(new GatheredScope(engine.gathered(net)));
    EXPECT_EQ(status_of_child([&] { gathered.reset(); }), 0);
    gathered.reset();
    std::unique_ptr<UsingScope> used(new UsingScope(engine.use({net.scale})));
    EXPECT_EQ(status_of_child([&] { used.reset(); }), 0);
    used.reset();
    loss_of(net, 0, 0, ranks.rank()).backward();
    EXPECT_EQ(engine.step().step, 1);
  });
}

TEST(ForkedChild, MayIgnoreTheModel) {
  on_two_processes([&](World& ranks) {
    TiedNet net;
    Engine engine = attach(net, ranks, {.stage = 3});
    for (int step = 0; step < 2; ++step) {
      EXPECT_EQ(status_of_child([] { EXPECT_EQ(torch::arange(4).sum().item<int>(), 6); }, step == 1), 0);
      loss_of(net, step, 0, ranks.rank()).backward();
      EXPECT_EQ(engine.step().step, step + 1);
    }
  });
}

// The child makes its own world and engine, and they work there.
TEST(ForkedChild, MayTrainItsOwnModel) {
  on_two_processes([&](World& ranks) {
    TiedNet net;
    const Engine engine = attach(net, ranks, {.stage = 3});
    EXPECT_EQ(status_of_child([] {
                TiedNet own;
                World alone = std::move(World::in_process(1).front());
                Engine trains = attach(own, alone, {.stage = 3});
                loss_of(own, 0, 0, 0).backward();
                EXPECT_EQ(trains.step().step, 1);
              }),
              0);
  });
}

// This includes a kept reference to a communicator or group, and a collective that has begun.
TEST(ForkedChild, RefusesCollectives) {
  const TemporaryFolder flight;
  on_two_processes([&](World& ranks) {
    ranks.keep_flight_in(flight.path());
    Communicator& comm = ranks.communicator();
    std::unique_ptr<Communicator> group = open_group(comm, {0, 1}, "both");
    Work begun = comm.barrier({});
    EXPECT_EQ(status_of_child([&] {
                expect_refused([&] { begun.wait(); }, ranks.rank());
                expect_refused([&] { comm.barrier({}).wait(); }, ranks.rank());
                expect_refused([&] { group->barrier({}).wait(); }, ranks.rank());
                expect_refused([&] { comm.drain(); }, ranks.rank());
                ranks.write_flight(CommError(1, "a test", "of the child"));
                group.reset();
              }),
              0);
    begun.wait();
    group->barrier({}).wait();
    EXPECT_TRUE(std::filesystem::is_empty(flight.path()));
  });
}

}  // namespace
}  // namespace zero
