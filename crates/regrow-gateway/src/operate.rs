//! What an operator sees and orders: status, metrics, health, and orders to servers.
