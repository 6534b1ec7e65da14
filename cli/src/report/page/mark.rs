//! Marks of measured points.

/// The form of a series' marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Disc,
    Square,
    Diamond,
    Triangle,
    Ring,
}

/// A mark at a pixel, with what is said when it is pointed at.
pub(super) fn mark(mark: Mark, (x, y): (f64, f64), tip: Option<&str>) -> String {
    let tip = tip.map(|tip| format!("<title>{tip}</title>")).unwrap_or_default();
    let polygon = |corners: &[(f64, f64)]| {
        let point = |text: String, &(dx, dy): &(f64, f64)| text + &format!("{:.1},{:.1} ", x + dx, y + dy);
        let points = corners.iter().fold(String::new(), point);
        format!("<polygon class=\"mark\" points=\"{points}\">{tip}</polygon>")
    };
    match mark {
        Mark::Disc => format!("<circle class=\"mark\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\">{tip}</circle>"),
        Mark::Ring => format!("<circle class=\"mark open\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\">{tip}</circle>"),
        Mark::Square => polygon(&[(-3.8, -3.8), (3.8, -3.8), (3.8, 3.8), (-3.8, 3.8)]),
        Mark::Diamond => polygon(&[(0.0, -5.4), (5.4, 0.0), (0.0, 5.4), (-5.4, 0.0)]),
        Mark::Triangle => polygon(&[(0.0, -5.0), (4.8, 3.8), (-4.8, 3.8)]),
    }
}
