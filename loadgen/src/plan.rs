//! What is to be measured: body sizes, shape of the load, the measured window. Plain values; nothing here opens a
//! socket or reads the clock.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Bodies above this are refused by RocketMQ (`maxMessageSize`).
pub const BODY_BYTES_MAX: u32 = 4 * 1024 * 1024;
/// Outstanding requests on one connection; the slot number fits 16 bits of the opaque.
pub const DEPTH_MAX: u32 = 32_768;
/// Connections of one run; more needs more than one machine to be meaningful.
pub const CONNECTIONS_MAX: u32 = 20_000;

/// How large bodies are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodySize {
    /// All the same.
    Fixed(u32),
    /// Evenly between both bounds, inclusive.
    Uniform {
        /// Smallest body in bytes.
        min: u32,
        /// Largest body in bytes.
        max: u32,
    },
    /// Weighted sizes.
    Mix(Vec<Weighted>),
}

/// One size of a mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weighted {
    /// Its share, relative to the other weights.
    pub weight: u32,
    /// Body size in bytes.
    pub size: u32,
}

impl BodySize {
    /// The largest body that can be drawn.
    pub fn max(&self) -> u32 {
        match self {
            BodySize::Fixed(size) => *size,
            BodySize::Uniform { max, .. } => *max,
            BodySize::Mix(sizes) => sizes.iter().map(|s| s.size).max().unwrap_or(0),
        }
    }

    /// The smallest body that can be drawn.
    pub fn min(&self) -> u32 {
        match self {
            BodySize::Fixed(size) => *size,
            BodySize::Uniform { min, .. } => *min,
            BodySize::Mix(sizes) => sizes.iter().map(|s| s.size).min().unwrap_or(0),
        }
    }

    /// The mean body in bytes.
    pub fn mean(&self) -> f64 {
        match self {
            BodySize::Fixed(size) => f64::from(*size),
            BodySize::Uniform { min, max } => (f64::from(*min) + f64::from(*max)) / 2.0,
            BodySize::Mix(sizes) => {
                let weights: f64 = sizes.iter().map(|s| f64::from(s.weight)).sum();
                sizes.iter().map(|s| f64::from(s.weight) * f64::from(s.size)).sum::<f64>() / weights
            }
        }
    }

    /// Draws the next body size.
    pub fn draw(&self, random: &mut Random) -> u32 {
        match self {
            BodySize::Fixed(size) => *size,
            BodySize::Uniform { min, max } => min + random.below(max - min + 1),
            BodySize::Mix(sizes) => {
                let total: u32 = sizes.iter().map(|s| s.weight).sum();
                let mut ticket = random.below(total);
                for sized in sizes {
                    if ticket < sized.weight {
                        return sized.size;
                    }
                    ticket -= sized.weight;
                }
                self.max()
            }
        }
    }
}

impl FromStr for BodySize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let size = |part: &str| -> Result<u32, String> {
            let bytes = crate::units::parse_bytes(part)?;
            u32::try_from(bytes)
                .ok()
                .filter(|bytes| *bytes <= BODY_BYTES_MAX)
                .ok_or_else(|| format!("a body of `{part}` is above RocketMQ's 4MiB"))
        };
        if let Some(range) = text.strip_prefix("uniform:") {
            let (min, max) =
                range.split_once('-').ok_or("write uniform:MIN-MAX, for example uniform:100-4000")?;
            let (min, max) = (size(min)?, size(max)?);
            if min > max {
                return Err(format!("`{text}`: the smallest size is above the largest"));
            }
            return Ok(BodySize::Uniform { min, max });
        }
        if let Some(parts) = text.strip_prefix("mix:") {
            let mut sizes = Vec::new();
            for part in parts.split(',') {
                let (weight, bytes) = part
                    .split_once('x')
                    .ok_or("write mix:WEIGHTxSIZE,..., for example mix:70x256,25x1024,5x65536")?;
                let weight: u32 = weight.parse().map_err(|_| format!("`{weight}` is not a weight"))?;
                if weight == 0 || weight > 1_000_000 {
                    return Err(format!("`{part}`: weights are between 1 and 1000000"));
                }
                sizes.push(Weighted { weight, size: size(bytes)? });
            }
            return Ok(BodySize::Mix(sizes));
        }
        Ok(BodySize::Fixed(size(text)?))
    }
}

impl fmt::Display for BodySize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BodySize::Fixed(size) => write!(f, "{size}"),
            BodySize::Uniform { min, max } => write!(f, "uniform:{min}-{max}"),
            BodySize::Mix(sizes) => {
                f.write_str("mix:")?;
                for (index, sized) in sizes.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    write!(f, "{comma}{}x{}", sized.weight, sized.size)?;
                }
                Ok(())
            }
        }
    }
}

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pacing {
    /// As soon as an answer frees a place: `depth` outstanding per connection. Latency counts from the send.
    Closed,
    /// At fixed intended times, `per_second` messages each second. Latency counts from the intended time, so a server
    /// that stalls cannot hide the messages that it kept waiting.
    Open {
        /// Messages per second over all connections.
        per_second: f64,
    },
}

/// Which sides of the broker are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roles {
    /// Connections send.
    pub producers: bool,
    /// Connections pull.
    pub consumers: bool,
}

/// One workload: the same values give the same load.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Topics, each with `queues` queues per broker.
    pub topics: u32,
    /// Queues per topic and broker.
    pub queues: u32,
    /// Sizes of the bodies.
    pub body: BodySize,
    /// Connections of each role.
    pub connections: u32,
    /// Outstanding requests per connection at most.
    pub depth: u32,
    /// Closed or open loop.
    pub pacing: Pacing,
    /// Producers, consumers or both.
    pub roles: Roles,
    /// Not measured, before the window.
    pub warmup: Duration,
    /// The measured window.
    pub duration: Duration,
    /// Sends end early after this many messages (a cap on bytes), the window then ends with them.
    pub messages_max: Option<u64>,
}

impl Workload {
    /// Refuses what cannot be run, before anything is started.
    pub fn check(&self) -> Result<(), String> {
        let between = |name: &str, value: u32, max: u32| {
            if value == 0 || value > max {
                return Err(format!("--{name} must be between 1 and {max}, not {value}"));
            }
            Ok(())
        };
        between("topics", self.topics, 10_000)?;
        between("queues", self.queues, 1_024)?;
        between("connections", self.connections, CONNECTIONS_MAX)?;
        between("depth", self.depth, DEPTH_MAX)?;
        if self.duration < Duration::from_millis(100) {
            return Err("--duration must be at least 100ms: shorter windows measure the scheduler".to_owned());
        }
        if let Pacing::Open { per_second } = self.pacing
            && !(per_second > 0.0 && per_second <= 50_000_000.0)
        {
            return Err(format!("--rate must be above 0 messages per second, not {per_second}"));
        }
        if !self.roles.producers && !self.roles.consumers {
            return Err("neither producers nor consumers: nothing to do".to_owned());
        }
        let end_to_end = self.roles.producers && self.roles.consumers;
        let stamp_bytes = crate::audit::identity::IDENTITY_BYTES;
        if end_to_end && (self.body.min() as usize) < stamp_bytes {
            return Err(format!(
                "end-to-end latency needs bodies of at least {stamp_bytes} bytes for the timestamp, --body {} has smaller ones",
                self.body
            ));
        }
        Ok(())
    }
}

/// A small generator of pseudo-random numbers (xorshift64*), so that a run's sizes can be repeated from its seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts from a seed; zero is replaced, since it is the generator's fixed point.
    pub fn new(seed: u64) -> Random {
        Random(if seed == 0 { 0x9E37_79B9_7F4A_7C15 } else { seed })
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `bound`, which must not be zero.
    pub fn below(&mut self, bound: u32) -> u32 {
        assert!(bound > 0, "nothing is below zero");
        let high = self.next_u64() >> 32;
        ((high * u64::from(bound)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<BodySize, String> {
        text.parse()
    }

    #[test]
    fn body_sizes_are_read_and_written_alike() {
        for text in ["1024", "uniform:100-4000", "mix:70x256,25x1024,5x65536"] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        assert_eq!(parse("4KiB"), Ok(BodySize::Fixed(4096)));
        for wrong in ["5MiB", "uniform:9-1", "uniform:7", "mix:0x5", "mix:5", "mix:", "x"] {
            assert!(parse(wrong).is_err(), "{wrong} must be refused");
        }
    }

    #[test]
    fn drawn_sizes_keep_their_bounds_and_weights() {
        let mut random = Random::new(7);
        let uniform = BodySize::Uniform { min: 10, max: 12 };
        let mut seen = [0u32; 3];
        for _ in 0..3000 {
            seen[(uniform.draw(&mut random) - 10) as usize] += 1;
        }
        assert!(seen.iter().all(|count| (800..1200).contains(count)), "{seen:?}");
        let mix = parse("mix:9x1,1x100").unwrap();
        let large = (0..10_000).filter(|_| mix.draw(&mut random) == 100).count();
        assert!((800..1200).contains(&large), "{large}");
        assert!((mix.mean() - 10.9).abs() < 1e-9);
    }
}
