//! Placing of texts beside points, so that none lies on another.
//!
//! Greedy: texts in the order of their importance, each at the best free place around its point. What
//! finds no place near is moved away with a leader; what finds none at all is left out: the table
//! below a chart has every value.

/// A rectangle, in the units of the picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rect {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

impl Rect {
    /// Around a point.
    pub(super) fn around((x, y): (f64, f64), radius: f64) -> Self {
        Self {
            left: x - radius,
            top: y - radius,
            right: x + radius,
            bottom: y + radius,
        }
    }

    fn center(&self) -> (f64, f64) {
        (
            (self.left + self.right) / 2.0,
            (self.top + self.bottom) / 2.0,
        )
    }

    /// From the nearest edge to a point outside.
    fn distance(&self, (x, y): (f64, f64)) -> f64 {
        let across = (self.left - x).max(x - self.right).max(0.0);
        let along = (self.top - y).max(y - self.bottom).max(0.0);
        across.hypot(along)
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    fn contains(&self, other: &Self) -> bool {
        self.left <= other.left
            && self.top <= other.top
            && self.right >= other.right
            && self.bottom >= other.bottom
    }

    /// Whether the segment from `a` to `b` passes through, by clipping it (Liang and Barsky).
    fn crosses(&self, (a, b): ((f64, f64), (f64, f64))) -> bool {
        let (dx, dy) = (b.0 - a.0, b.1 - a.1);
        let (mut from, mut to) = (0.0_f64, 1.0_f64);
        for (step, room) in [
            (-dx, a.0 - self.left),
            (dx, self.right - a.0),
            (-dy, a.1 - self.top),
            (dy, self.bottom - a.1),
        ] {
            if step == 0.0 {
                if room < 0.0 {
                    return false;
                }
            } else if step < 0.0 {
                from = from.max(room / step);
            } else {
                to = to.min(room / step);
            }
        }
        from < to
    }
}

/// A text to place.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) text: String,
    /// The point it belongs to.
    pub(super) at: (f64, f64),
}

/// Where a text went.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Placed {
    /// Index into what was wanted.
    pub(super) index: usize,
    /// Its box.
    pub(super) bounds: Rect,
    /// Whether a line should tie it to its point.
    pub(super) leader: bool,
}

/// What must not be covered.
#[derive(Debug)]
pub(super) struct Obstacles {
    /// The area that texts have to stay in.
    pub(super) area: Rect,
    /// Boxes of markers.
    pub(super) markers: Vec<Rect>,
    /// Lines; better not covered, but can be.
    pub(super) lines: Vec<((f64, f64), (f64, f64))>,
}

/// Mean width of a character over its font's size; wide fonts included.
const CHARACTER_WIDTH: f64 = 0.6;

/// About how wide a text is.
pub(super) fn text_width(text: &str, font_size: f64) -> f64 {
    text.chars().count() as f64 * font_size * CHARACTER_WIDTH
}

/// Directions to try, the best first: right, left, above, below, and between them.
const DIRECTIONS: [(f64, f64); 8] = [
    (1.0, 0.0),
    (-1.0, 0.0),
    (0.0, -1.0),
    (0.0, 1.0),
    (0.8, -0.8),
    (-0.8, -0.8),
    (0.8, 0.8),
    (-0.8, 0.8),
];
/// Distances from the point to the box.
const DISTANCES: [f64; 5] = [8.0, 15.0, 26.0, 40.0, 60.0];
/// From here on a leader is drawn.
const LEADER_DISTANCE: f64 = 20.0;

/// Places texts, the first ones first.
pub(super) fn place(wanted: &[Wanted], font_size: f64, obstacles: &Obstacles) -> Vec<Placed> {
    let mut placed: Vec<Placed> = Vec::new();
    for (index, text) in wanted.iter().enumerate() {
        let best = candidates(text, font_size)
            .filter(|(bounds, _)| {
                obstacles.area.contains(bounds)
                    && !placed.iter().any(|other| other.bounds.overlaps(bounds))
                    && !obstacles
                        .markers
                        .iter()
                        .any(|marker| marker.overlaps(bounds))
            })
            .enumerate()
            .map(|(rank, (bounds, leader))| {
                let lines = &obstacles.lines;
                let crossed = lines.iter().filter(|&&line| bounds.crosses(line)).count();
                // Closer to another marker than to its own, a text would be taken for the other's.
                let own = bounds.distance(text.at);
                let markers = obstacles.markers.iter();
                let nearer = markers
                    .filter(|marker| bounds.distance(marker.center()) < own)
                    .count();
                let cost = rank as f64 + 6.0 * crossed as f64 + 12.0 * nearer as f64;
                (cost, bounds, leader)
            })
            .min_by(|(a, ..), (b, ..)| a.total_cmp(b));
        if let Some((_, bounds, leader)) = best {
            placed.push(Placed {
                index,
                bounds,
                leader,
            });
        }
    }
    placed
}

fn candidates(text: &Wanted, font_size: f64) -> impl Iterator<Item = (Rect, bool)> {
    let width = text_width(&text.text, font_size);
    let height = font_size * 1.15;
    let (x, y) = text.at;
    DISTANCES.into_iter().flat_map(move |distance| {
        DIRECTIONS.into_iter().map(move |(right, down)| {
            let center_x = x + right * distance + f64::signum(right) * half(right, width);
            let center_y = y + down * distance + f64::signum(down) * half(down, height);
            let bounds = Rect {
                left: center_x - width / 2.0,
                top: center_y - height / 2.0,
                right: center_x + width / 2.0,
                bottom: center_y + height / 2.0,
            };
            (bounds, distance > LEADER_DISTANCE)
        })
    })
}

/// Half of a box's extent in a direction that leads away from the point.
fn half(direction: f64, extent: f64) -> f64 {
    if direction == 0.0 { 0.0 } else { extent / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area() -> Rect {
        Rect {
            left: 0.0,
            top: 0.0,
            right: 600.0,
            bottom: 400.0,
        }
    }

    /// A crowd of points: whatever is placed lies inside, on no marker and on no other text.
    #[test]
    fn no_text_covers_another_nor_a_marker() {
        let points: Vec<(f64, f64)> = (0..40)
            .map(|index| (f64::from(index * 97 % 590), f64::from(index * 61 % 390)))
            .collect();
        let wanted: Vec<Wanted> = points
            .iter()
            .enumerate()
            .map(|(index, &at)| Wanted {
                text: format!("zstd-{index}/128 KiB"),
                at,
            })
            .collect();
        let obstacles = Obstacles {
            area: area(),
            markers: points.iter().map(|&at| Rect::around(at, 5.0)).collect(),
            lines: points
                .iter()
                .zip(&points[1..])
                .map(|(&a, &b)| (a, b))
                .collect(),
        };
        let placed = place(&wanted, 12.0, &obstacles);
        assert!(placed.len() >= 20, "{} of 40 found a place", placed.len());
        for (index, one) in placed.iter().enumerate() {
            assert!(area().contains(&one.bounds));
            assert!(
                !obstacles
                    .markers
                    .iter()
                    .any(|marker| marker.overlaps(&one.bounds))
            );
            assert!(
                !placed[..index]
                    .iter()
                    .any(|other| other.bounds.overlaps(&one.bounds))
            );
        }
    }

    #[test]
    fn a_lone_text_stands_right_of_its_point() {
        let wanted = [Wanted {
            text: "dense".to_owned(),
            at: (100.0, 100.0),
        }];
        let obstacles = Obstacles {
            area: area(),
            markers: vec![Rect::around((100.0, 100.0), 5.0)],
            lines: Vec::new(),
        };
        let placed = place(&wanted, 12.0, &obstacles);
        assert_eq!(placed.len(), 1);
        assert!(placed[0].bounds.left > 105.0 && !placed[0].leader);
    }

    #[test]
    fn lines_are_avoided_where_there_is_room() {
        let wanted = [Wanted {
            text: "dense".to_owned(),
            at: (100.0, 100.0),
        }];
        let line = ((100.0, 100.0), (600.0, 100.0));
        let obstacles = Obstacles {
            area: area(),
            markers: Vec::new(),
            lines: vec![line],
        };
        let placed = place(&wanted, 12.0, &obstacles);
        assert!(!placed[0].bounds.crosses(line));
    }
}
