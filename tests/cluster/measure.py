def all_figures(o): pass
