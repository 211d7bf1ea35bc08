#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "shared/base/error_text.h"
#include "shared/base/units.h"
#include "shared/env/child_process.h"
#include "shared/env/clock.h"
#include "shared/env/process.h"
#include "tools/cli/restart_policy.h"
#include "tools/cli/tf_config.h"
#include "tools/cli/verbs.h"

namespace downpour::tools {
namespace {

constexpr uint32_t kRestarts = 5;  // in a row, of a process beside this one
constexpr int64_t kProgressNs = 60 * kSecond;

struct NodeFlags {
  std::string job;
  std::string keys;
  bool insecure = false;
  bool allow_exec = false;
  std::string threads;
  std::vector<std::string> set;
};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Error cannot_start(const std::string& path, int error) {
  return Error{ErrorCode::kNoInput, str("the program can't be started: ", std::strerror(error)),
               path, "install all of Downpour's programs in one folder"};
}

/// Replaces this process by another of Downpour's programs. Returns only an error.
Error become(const std::string& program, std::vector<std::string> arguments) {
  const std::string path = str(program_dir(), "/", program);
  arguments.insert(arguments.begin(), program);
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  ::execv(path.c_str(), pointers.data());
  return cannot_start(path, errno);
}

std::vector<std::string> key_flags(const NodeFlags& flags) {
  if (flags.insecure) return {"--insecure"};
  if (flags.keys.empty()) return {};
  return {"--keys", flags.keys};
}

/// Returns the arguments of a ps or worker. `bind`: where the ps listens; empty for a worker alone.
std::vector<std::string> member_arguments(const NodeFlags& flags, const NodePlan& plan,
                                          const std::string& bind) {
  std::vector<std::string> arguments = {"--chief",       plan.chief,          "--index",
                                        str(plan.index), "--connect-timeout", "60"};
  for (std::string& flag : key_flags(flags)) arguments.push_back(std::move(flag));
  if (!bind.empty())
    arguments.insert(arguments.end(), {"--bind", "tcp://" + bind, "--advertise", plan.host});
  if (!flags.threads.empty()) arguments.insert(arguments.end(), {"--threads", flags.threads});
  return arguments;
}

std::vector<std::string> worker_arguments(const NodeFlags& flags, const NodePlan& plan) {
  std::vector<std::string> arguments =
      member_arguments(flags, plan, plan.ps_in_workers ? plan.ps_bind : "");
  if (plan.ps_in_workers) arguments.emplace_back("--with-ps");
  if (flags.allow_exec) arguments.emplace_back("--allow-exec");
  return arguments;
}

std::vector<std::string> chief_arguments(const NodeFlags& flags, const NodePlan& plan) {
  std::vector<std::string> arguments = {flags.job, "--bind", plan.bind};
  for (std::string& flag : key_flags(flags)) arguments.push_back(std::move(flag));
  std::vector<std::string> set = flags.set;
  if (plan.workers > 0) set.push_back(str("cluster.workers=", plan.workers));
  if (plan.ps > 0 && !plan.ps_in_workers) set.push_back(str("cluster.ps=", plan.ps));
  if (plan.ps_in_workers) {
    set.emplace_back("cluster.ps=in_workers");
    set.emplace_back("cluster.ps_threads=1");  // as worker_arguments() starts them
    arguments.insert(arguments.end(), {"--set-default", "train.mode=sync"});
  }
  for (const std::string& one : set) arguments.insert(arguments.end(), {"--set", one});
  return arguments;
}

Error run_local(const NodeFlags& flags) {
  std::fputs("node: TF_CONFIG is not set: trains in this process\n", stderr);
  std::vector<std::string> arguments = {"train", flags.job};
  if (!flags.threads.empty()) arguments.insert(arguments.end(), {"--threads", flags.threads});
  for (const std::string& one : flags.set) arguments.insert(arguments.end(), {"--set", one});
  return become("downpour", std::move(arguments));
}

/// Starts a program that ends with this process, in a process of its own that starts it again when
/// it dies. If that does not help, this process gets SIGTERM.
Result<void> keep_running(const std::string& program, std::vector<std::string> arguments) {
  const std::string path = str(program_dir(), "/", program);
  arguments.insert(arguments.begin(), path);
  if (::access(path.c_str(), X_OK) != 0) return cannot_start(path, errno);
  const pid_t parent = ::getpid();
  const pid_t keeper = ::fork();
  if (keeper < 0) return cannot_start(path, errno);
  if (keeper > 0) return {};
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  // The keeper does not know how far the job is. A process that ran for a minute made progress.
  RestartPolicy policy(kRestarts);
  uint64_t progress = 0;
  const PosixClock clock;
  while (::getppid() == parent) {
    const int64_t start_ns = clock.now_ns();
    const Started started = start_own({.argv = arguments}, SIGTERM, /*hold_stop_signals=*/false);
    int status = 0;
    if (started.error != 0) {
      std::fprintf(stderr, "node: %s can't be started: %s\n", path.c_str(),
                   std::strerror(started.error));
      ::kill(parent, SIGTERM);
      break;
    }
    if (!reap(started.pid, 0, status)) break;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    const bool stopped = code == 128 + SIGINT || code == 128 + SIGTERM;  // as the chief asked
    if (stopped || (WIFEXITED(status) && code == 0)) break;
    if (!restart_mends(status)) {
      std::fprintf(stderr, "node: %s %s, and is not started again\n", program.c_str(),
                   end_text(status).c_str());
      break;
    }
    const int64_t now_ns = clock.now_ns();
    if (now_ns - start_ns >= kProgressNs) ++progress;
    const auto start_at_ns = policy.on_ended(now_ns, progress);
    if (!start_at_ns) {
      std::fprintf(stderr, "node: %s %s, also after %u restarts; the whole node stops\n",
                   program.c_str(), end_text(status).c_str(), kRestarts);
      ::kill(parent, SIGTERM);
      break;
    }
    std::fprintf(stderr, "node: %s %s; it is restarted\n", program.c_str(),
                 end_text(status).c_str());
    std::this_thread::sleep_for(std::chrono::nanoseconds(*start_at_ns - now_ns));
  }
  ::_exit(0);
}

/// Returns the interface that takes connections to each address of this machine. Where there is
/// IPv6, it takes those over IPv4, too.
std::string everywhere() {
  const int fd = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  const bool has_ipv6 =
      fd >= 0 && ::bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof(any)) == 0;
  if (fd >= 0) ::close(fd);
  return has_ipv6 ? "[::]" : "0.0.0.0";
}

/// Returns the exit status, if this process does not become another program.
Result<int> run_node(const NodeFlags& flags) {
  const std::string text = environment("TF_CONFIG");
  if (text.empty()) return run_local(flags);
  DP_TRY(const TfConfig config, parse_tf_config(text));
  if (config.task == TfConfig::Task::kEvaluator) {
    std::fputs("node: an evaluator has nothing to do: the workers evaluate (eval.source)\n",
               stderr);
    return 0;
  }
  DP_TRY(const NodePlan plan, plan_node(config, environment("DOWNPOUR_CHIEF"), everywhere()));
  for (const std::string& one : flags.set) {
    if (!plan.ps_in_workers || !one.starts_with("cluster.ps_threads=")) continue;
    return Error{ErrorCode::kUsage, "a ps in a worker has one thread", str("--set ", one),
                 "remove the flag, or start the ps in processes of their own"};
  }
  if (plan.with_chief) DP_TRY_VOID(keep_running("downpour-worker", worker_arguments(flags, plan)));
  if (plan.with_chief || plan.role == wire::Role::kChief)
    return become("downpour-chief", chief_arguments(flags, plan));
  if (plan.role == wire::Role::kPs)
    return become("downpour-ps", member_arguments(flags, plan, plan.bind));
  return become("downpour-worker", worker_arguments(flags, plan));
}

}  // namespace

void declare_node(CLI::App* verb, int& status) {
  auto* const flags = set_run(verb, status, run_node);
  verb->add_option("job", flags->job, "Job file (.toml)")->required();
  verb->add_option("--keys", flags->keys, "Folder with the keys of the job, or one key file")
      ->group("Cluster");
  verb->add_flag("--insecure", flags->insecure,
                 "Use no keys: connections are not encrypted, and any process can join. Set it for "
                 "all processes of the job or for none")
      ->group("Cluster");
  verb->add_flag("--allow-exec", flags->allow_exec,
                 "Allow a worker to start the programs that the job uses to read data")
      ->group("Resources");
  verb->add_option("--threads", flags->threads, "Number of threads of this process")
      ->group("Resources");
  verb->add_option("--set", flags->set, "Override any key of the job; only the chief uses it")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  verb->footer(
      "In a cluster without ps each worker also runs a ps with one thread, and the job trains "
      "synchronously unless it sets train.mode.\n\nExample:\n  TF_CONFIG='{\"cluster\": "
      "{\"chief\": [\"a:2222\"], \"ps\": "
      "[\"b:2222\"], "
      "\"worker\": [\"c:2222\"]}, \"task\": {\"type\": \"ps\", \"index\": 0}}' downpour node "
      "job.toml --keys keys");
}

}  // namespace downpour::tools
