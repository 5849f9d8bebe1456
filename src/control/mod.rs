//! The control core: objects, health, drain clocks, the socket.
