//! The shared vocabulary of Tracewarden: logical types, field references, access model, filter, window.
