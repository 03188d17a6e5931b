//! The HTTP face against real sockets: both eras, the guards before them, and how it bears clients that mean no good.

mod guards;
mod house;
mod legacy;
mod limits;
mod modern;
mod older;
mod own_client;
mod resuming;
mod rounds;
mod secure;
mod shutdown;
mod threads;
mod wire;
mod world;
