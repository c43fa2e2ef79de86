//! Lines at the control socket.

use tantalum_export::control::{Reply, Request};

/// Whatever a client sends is a request or is refused, and the answer is one line that can be read
/// back; a request comes out as it went in.
pub fn control(input: &[u8]) {
    for line in input.split(|byte| *byte == b'\n') {
        let parsed = Request::parse(line);
        if let Ok(request) = &parsed {
            assert_eq!(Request::parse(&request.line()).as_ref(), Ok(request));
        }
        let reply = Reply::of(parsed.map(|_| serde_json::Value::Null)).line();
        assert_eq!(reply.iter().filter(|byte| **byte == b'\n').count(), 1);
        assert!(serde_json::from_slice::<Reply>(&reply).is_ok());
    }
}
