// The page for people: three files, embedded in the program, and its icon.
#ifndef KINORA_SERVER_GATEWAY_PAGE_HANDLER_H_
#define KINORA_SERVER_GATEWAY_PAGE_HANDLER_H_

#include <vector>

#include "server/gateway/routes.h"

namespace kinora {

// GET / (page/index.html), /page.css and /page.js, each with a strong ETag that a browser checks on every load; and
// /favicon.ico, which is empty: index.html contains the icon, but a browser that shows another path asks for it.
// The page may load and call only its own origin.
std::vector<Route> PageRoutes();

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_PAGE_HANDLER_H_
