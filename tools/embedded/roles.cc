#include "tools/embedded/roles.h"

#include <utility>

#include "ps/runtime/ps_node.h"
#include "shared/env/clock.h"
#include "shared/env/process.h"
#include "shared/transport/reactor.h"
#include "shared/transport/transport.h"
#include "worker/runtime/worker_node.h"

namespace downpour::tools {

Result<chief::Finish> run_roles(Storage& storage, const chief::RunPlan& plan,
                                chief::ChiefConfig config, chief::ChiefOptions options,
                                uint32_t threads) {
  const PosixClock clock;
  const auto transport = transport::make_zmq_transport();
  const std::string name = hex(config.run);
  config.lease_retry_ns = chief::kLocalLeaseRetryNs;
  options.run_dir = plan.job.run_dir;
  options.endpoint = str("inproc://chief-", name);
  chief::ChiefNode chief(*transport, storage, std::move(config), plan.tables, std::move(options),
                         nullptr);
  DP_TRY_VOID(chief.start(clock.now_ns()));
  ps::PsNode ps(*transport, storage,
                {.chief = chief.endpoint(),
                 .endpoint = str("inproc://ps-", name),
                 .index = 0,
                 .incarnation = Incarnation{random_id()}});
  DP_TRY_VOID(ps.start(clock.now_ns()));
  worker::WorkerNode worker(*transport,
                            {.chief = chief.endpoint(), .index = 0, .threads = threads});
  DP_TRY_VOID(worker.start(clock.now_ns()));
  transport::Reactor reactor(*transport, clock);
  reactor.add(chief);
  reactor.add(ps);
  reactor.add(worker);
  reactor.run();
  chief::Finish finish = chief.finish();
  transport->shutdown(0);  // every role has ended, so no message waits
  return finish;
}

}  // namespace downpour::tools
