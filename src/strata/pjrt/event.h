// Completion of asynchronous work in a plug-in.
#pragma once

#include <functional>
#include <memory>

#include "strata/base/error.h"

struct PJRT_Event;

namespace strata::pjrt {

class Plugin;

// Move-only owner of a PJRT_Event. The default one is already complete. Waiting and polling may be
// done from any thread; destroying an event does not wait for its work.
class Event {
 public:
  Event() = default;
  Event(std::shared_ptr<const Plugin> plugin, PJRT_Event* handle);
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event();

  // Whether the work is done, with or without success.
  bool ready() const;
  // Blocks until it is done. Throws "pjrt.call" (PJRT_Event_Await) with the code and text of the
  // work's failure; every later call throws it again.
  void wait() const;

 private:
  std::shared_ptr<const Plugin> plugin_;
  PJRT_Event* handle_ = nullptr;
};

}  // namespace strata::pjrt
